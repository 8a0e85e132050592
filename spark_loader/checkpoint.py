"""Checkpoints of a load: plan, offsets per mapper, manifest. JSON, versioned, for people to read.

    OUTPUT/topic=…/date=…/hour=…/TOPIC+PARTITION+FROM+UNTIL+TOKEN.parquet
    OUTPUT/_zkbroker/lock
    OUTPUT/_zkbroker/runs/000012/plan.json           written before the first mapper starts
    OUTPUT/_zkbroker/runs/000012/offsets/00003.json  written by mapper 3 when its files are durable
    OUTPUT/_zkbroker/runs/000012/staging/…           files until the run is published
    OUTPUT/_zkbroker/quarantine/…                    records no event time was found for
    OUTPUT/_zkbroker/manifests/000012.json           the run counts from here on

Invariants. A run exists when its plan does, and counts when its manifest does; both appear at once
and never change. There is at most one run that was planned and does not count, the last one; it
is taken up again with identical ranges. The manifest with the highest number holds the position of
every partition. What readers may see is exactly the files that manifests name and no later
manifest withdraws.
"""

import json
from collections.abc import Iterator
from typing import Any

from spark_loader.errors import CheckpointError
from spark_loader.files import FileSystem, join
from spark_loader.filesystems import output_path
from spark_loader.ledger import (
    Manifest,
    MapperOffsets,
    Plan,
    files_from_json,
    files_to_json,
    gaps_from_json,
    gaps_to_json,
    ranges_from_json,
    ranges_to_json,
)
from spark_loader.positions import flat_numbers, partition_numbers

VERSION = 1
STATE = "_zkbroker"


class Checkpoints:
    """The checkpoint files of one output directory."""

    def __init__(self, filesystem: FileSystem, output: str) -> None:
        self._fs = filesystem
        self.output = output_path(output)

    def path(self, *parts: str) -> str:
        """Return the path of something in the state directory."""
        return join(self.output, STATE, *parts)

    # Plans

    def run_numbers(self) -> list[int]:
        """Return the runs that were planned, in order."""
        names = self._fs.names(self.path("runs"))
        return [int(name) for name in names if name.isdecimal()]

    def plan(self, run: int) -> Plan:
        found = self._read(self.path("runs", _run(run), "plan.json"), "plan")
        return Plan(
            run=found["run"],
            created=found["created"],
            mappers=tuple(ranges_from_json(mapper) for mapper in found["mappers"]),
            gaps=gaps_from_json(found["gaps"]),
            positions=flat_numbers(found["positions"]),
            log_starts=flat_numbers(found["log_starts"]),
            log_ends=flat_numbers(found["log_ends"]),
            # Checkpoints of the first release have none.
            topics_created_ms=found.get("topics_created_ms", {}),
        )

    def write_plan(self, plan: Plan) -> None:
        """Write a plan; raise CheckpointError when another run took the number meanwhile."""
        content = {
            "run": plan.run,
            "created": plan.created,
            "mappers": [ranges_to_json(mapper) for mapper in plan.mappers],
            "gaps": gaps_to_json(plan.gaps),
            "positions": partition_numbers(plan.positions),
            "log_starts": partition_numbers(plan.log_starts),
            "log_ends": partition_numbers(plan.log_ends),
            "topics_created_ms": plan.topics_created_ms,
        }
        self._publish(self.path("runs", _run(plan.run), "plan.json"), "plan", content)

    def unfinished(self) -> Plan | None:
        """Return the plan of the run that was planned and does not count yet, if there is one."""
        counted = set(self.manifest_numbers())
        for run in reversed(self.run_numbers()):
            if run in counted:
                return None
            if self.is_planned(run):
                return self.plan(run)
        return None

    def is_planned(self, run: int) -> bool:
        """Return whether a run has a plan."""
        return self._fs.size(self.path("runs", _run(run), "plan.json")) is not None

    # Offsets of mappers

    def offsets_path(self, run: int, mapper: int) -> str:
        return self.path("runs", _run(run), "offsets", f"{mapper:05d}.json")

    def mapper_offsets(self, run: int, mapper: int) -> MapperOffsets | None:
        """Return what a mapper did, or None when it has not finished."""
        path = self.offsets_path(run, mapper)
        if self._fs.size(path) is None:
            return None
        found = self._read(path, "offsets")
        return MapperOffsets(
            run=found["run"],
            mapper=found["mapper"],
            attempt=found["attempt"],
            ranges=ranges_from_json(found["ranges"]),
            files=files_from_json(found["files"]),
            quarantined=files_from_json(found["quarantined"]),
            gaps=gaps_from_json(found["gaps"]),
            absent=gaps_from_json(found["absent"]),
            rows=found["rows"],
            value_bytes=found["value_bytes"],
        )

    def write_mapper_offsets(self, done: MapperOffsets) -> bool:
        """Write a mapper's offsets; False when another attempt of it was first."""
        content = {
            "run": done.run,
            "mapper": done.mapper,
            "attempt": done.attempt,
            "ranges": ranges_to_json(done.ranges),
            "next_offsets": partition_numbers({each.source: each.until for each in done.ranges}),
            "files": files_to_json(done.files),
            "quarantined": files_to_json(done.quarantined),
            "gaps": gaps_to_json(done.gaps),
            "absent": gaps_to_json(done.absent),
            "rows": done.rows,
            "value_bytes": done.value_bytes,
        }
        path = self.offsets_path(done.run, done.mapper)
        return self._fs.publish(path, _encode("offsets", content))

    def forget_mapper(self, run: int, mapper: int) -> None:
        """Remove a mapper's offsets, so that it is done again."""
        self._fs.delete(self.offsets_path(run, mapper))

    # Manifests

    def manifest_numbers(self) -> list[int]:
        """Return the runs that count, in order."""
        names = self._fs.names(self.path("manifests"))
        return [int(name[:-5]) for name in names if name.endswith(".json") and name[0] != "."]

    def manifest(self, run: int) -> Manifest:
        found = self._read(self.path("manifests", f"{_run(run)}.json"), "manifest")
        return Manifest(
            run=found["run"],
            created=found["created"],
            kind=found["kind"],
            ranges=ranges_from_json(found["ranges"]),
            files=files_from_json(found["files"]),
            quarantined=files_from_json(found["quarantined"]),
            withdrawn=tuple(found["withdrawn"]),
            gaps=gaps_from_json(found["gaps"]),
            absent=gaps_from_json(found["absent"]),
            rows=found["rows"],
            positions=flat_numbers(found["positions"]),
            log_starts=flat_numbers(found["log_starts"]),
            log_ends=flat_numbers(found["log_ends"]),
            # Checkpoints of the first release have none.
            topics_created_ms=found.get("topics_created_ms", {}),
            group=found["group"],
            note=found["note"],
        )

    def manifests(self) -> Iterator[Manifest]:
        """Yield every manifest, oldest first."""
        for run in self.manifest_numbers():
            yield self.manifest(run)

    def latest(self) -> Manifest | None:
        """Return the manifest that holds the current positions."""
        numbers = self.manifest_numbers()
        return self.manifest(numbers[-1]) if numbers else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Publish a manifest; raise CheckpointError when another run took the number."""
        content = {
            "run": manifest.run,
            "kind": manifest.kind,
            "created": manifest.created,
            "note": manifest.note,
            "group": manifest.group,
            "rows": manifest.rows,
            "bytes": sum(each.size_bytes for each in manifest.files),
            "positions": partition_numbers(manifest.positions),
            "log_starts": partition_numbers(manifest.log_starts),
            "log_ends": partition_numbers(manifest.log_ends),
            "topics_created_ms": manifest.topics_created_ms,
            "ranges": ranges_to_json(manifest.ranges),
            "gaps": gaps_to_json(manifest.gaps),
            "absent": gaps_to_json(manifest.absent),
            "withdrawn": list(manifest.withdrawn),
            "files": files_to_json(manifest.files),
            "quarantined": files_to_json(manifest.quarantined),
        }
        self._publish(self.path("manifests", f"{_run(manifest.run)}.json"), "manifest", content)

    def staging(self, run: int) -> str:
        """Return where a run's files lie until it is published, relative to the output."""
        return join(STATE, "runs", _run(run), "staging")

    def staged_names(self, run: int) -> list[str]:
        """Return the names of files left in a run's staging directory."""
        return self._fs.names(join(self.output, self.staging(run)))

    def next_run(self) -> int:
        """Return the number for a new run."""
        return max([0, *self.run_numbers(), *self.manifest_numbers()]) + 1

    def _publish(self, path: str, kind: str, content: dict[str, Any]) -> None:
        if not self._fs.publish(path, _encode(kind, content)):
            raise CheckpointError(
                f"{path} was written by another load of the same output meanwhile; run it again"
            )

    def _read(self, path: str, kind: str) -> dict[str, Any]:
        try:
            found = json.loads(self._fs.read(path))
        except FileNotFoundError:
            raise CheckpointError(f"{path} does not exist") from None
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None
        if not isinstance(found, dict) or found.get("format") != f"zkbroker-load-{kind}":
            raise CheckpointError(f"{path} is not a {kind} of a load")
        if found.get("version") != VERSION:
            raise CheckpointError(
                f"{path} has version {found.get('version')}; this release reads version {VERSION}"
            )
        return found


def _run(run: int) -> str:
    return f"{run:06d}"


def _encode(kind: str, content: dict[str, Any]) -> bytes:
    document = {"format": f"zkbroker-load-{kind}", "version": VERSION, **content}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
