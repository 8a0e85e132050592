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
is run again with identical ranges. The manifest with the highest number holds the position of
every partition. What readers may see is exactly the files that manifests name and no later
manifest withdraws. A manifest of kind `adopt` is a new beginning: those before it are history.

Each manifest says what the directory holds beside it (`lake`, `earlier`) and has a checksum of its
own, so that damage is noticed; `integrity.py` compares.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from spark_loader.errors import AlteredCheckpoint, CheckpointError
from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.inventory import Inventory
from spark_loader.lake.ledger import DataFile, Manifest, MapperOffsets, Plan, live
from spark_loader.reading.positions import partition_numbers
from spark_loader.storage.files import LakeFileSystem, join
from spark_loader.storage.filesystems import output_path

T = TypeVar("T")

VERSION = 1
STATE = "_zkbroker"
RESTORE = "Put it back from a backup, or take the data files over as a new beginning: --adopt"


class Checkpoints:
    """The checkpoint files of one output directory."""

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        self.filesystem = filesystem
        self.output = output_path(output)

    def path(self, *parts: str) -> str:
        """Return the path of something in the state directory."""
        return join(self.output, STATE, *parts)

    # Plans

    def run_numbers(self) -> list[int]:
        """Return the runs that were planned, in order."""
        names = self.filesystem.names(self.path("runs"))
        return [int(name) for name in names if name.isdecimal()]

    def plan(self, run: int) -> Plan:
        return self._read(self.path("runs", _run(run), "plan.json"), "plan", Plan)

    def write_plan(self, plan: Plan) -> None:
        """Write a plan; raise CheckpointError when another run took the number meanwhile."""
        self._publish(self.path("runs", _run(plan.run), "plan.json"), "plan", to_json(plan))

    def unfinished(self) -> Plan | None:
        """Return the plan of the run that was planned and does not count yet, if there is one."""
        counted = max([0, *self.manifest_numbers()])
        for run in reversed(self.run_numbers()):
            if run <= counted:
                return None
            if self.is_planned(run):
                return self.plan(run)
        return None

    def is_planned(self, run: int) -> bool:
        """Return whether a run has a plan."""
        return self.filesystem.size(self.path("runs", _run(run), "plan.json")) is not None

    # Offsets of mappers

    def offsets_path(self, run: int, mapper: int) -> str:
        return self.path("runs", _run(run), "offsets", f"{mapper:05d}.json")

    def mapper_offsets(self, run: int, mapper: int) -> MapperOffsets | None:
        """Return what a mapper did, or None when it has not finished."""
        path = self.offsets_path(run, mapper)
        if self.filesystem.size(path) is None:
            return None
        return self._read(path, "offsets", MapperOffsets)

    def write_mapper_offsets(self, done: MapperOffsets) -> bool:
        """Write a mapper's offsets; False when another attempt of it was first."""
        nexts = partition_numbers({each.source: each.until for each in done.ranges})
        content = {**to_json(done), "next_offsets": nexts}
        path = self.offsets_path(done.run, done.mapper)
        return self.filesystem.publish(path, _encode("offsets", content))

    def forget_mapper(self, run: int, mapper: int) -> None:
        """Remove a mapper's offsets, so that it is done again."""
        self.filesystem.delete(self.offsets_path(run, mapper))

    # Manifests

    def manifest_numbers(self) -> list[int]:
        """Return the runs that count, in order."""
        names = self.filesystem.names(self.path("manifests"))
        return [int(name[:-5]) for name in names if name.endswith(".json") and name[0] != "."]

    def manifest(self, run: int, *, altered: bool = False) -> Manifest:
        """Return a manifest.

        Args:
            run: its number.
            altered: whether one is read that is not as it was written.

        Raises:
            AlteredCheckpoint: it is not as it was written.
            CheckpointError: it cannot be read.
        """
        path = self.path("manifests", manifest_name(run))
        return self._read(path, "manifest", Manifest, altered=altered)

    def manifests(self) -> Iterator[Manifest]:
        """Yield every manifest since the beginning, oldest first."""
        latest = self.latest()
        if latest is None:
            return
        for run in self.manifest_numbers():
            if latest.beginning <= run < latest.run:
                yield self.manifest(run)
        yield latest

    def latest(self) -> Manifest | None:
        """Return the manifest that holds the current positions."""
        numbers = self.manifest_numbers()
        return self.manifest(numbers[-1]) if numbers else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Publish a manifest; raise CheckpointError when another run took the number."""
        manifest = self._with_inventories(manifest)
        content = {**to_json(manifest), "bytes": sum(each.size_bytes for each in manifest.files)}
        self._publish(self.path("manifests", manifest_name(manifest.run)), "manifest", content)

    def _with_inventories(self, manifest: Manifest) -> Manifest:
        """Add what the directory holds once a manifest counts.

        It follows from the last manifest's own account, never from what is there now: damage must
        not become the account.
        """
        added = lengths([*manifest.files, *manifest.quarantined])
        if manifest.kind == "adopt":
            lake = Inventory.of(added)
            return replace(manifest, beginning=manifest.run, lake=lake, earlier=Inventory())
        latest = self.latest()
        if latest is None:
            return replace(manifest, lake=Inventory.of(added), earlier=Inventory())
        counted: list[DataFile] = []
        if manifest.withdrawn or latest.lake is None:
            counted = [each for kind in live(self.manifests()) for each in kind]
        if latest.lake is None or latest.earlier is None:
            # Written by an older release: from here on there is an account.
            lake = Inventory.of(lengths(counted))
            runs = [each for each in self.manifest_numbers() if each <= latest.run]
            earlier = Inventory.of(self._lengths_of(runs))
        else:
            lake = latest.lake
            earlier = latest.earlier.changed(added=self._lengths_of([latest.run]))
        withdrawn = set(manifest.withdrawn)
        removed = lengths(each for each in counted if each.path in withdrawn)
        return replace(
            manifest,
            beginning=latest.beginning,
            lake=lake.changed(added=added, removed=removed),
            earlier=earlier,
        )

    def _lengths_of(self, runs: Iterable[int]) -> list[tuple[str, int]]:
        names = [manifest_name(run) for run in runs]
        return [(name, self.filesystem.size(self.path("manifests", name)) or 0) for name in names]

    def staging(self, run: int) -> str:
        """Return where a run's files lie until it is published, relative to the output."""
        return join(STATE, "runs", _run(run), "staging")

    def staged_names(self, run: int) -> list[str]:
        """Return the names of files left in a run's staging directory."""
        return self.filesystem.names(join(self.output, self.staging(run)))

    def next_run(self) -> int:
        """Return the number for a new run."""
        return max([0, *self.run_numbers(), *self.manifest_numbers()]) + 1

    def _publish(self, path: str, kind: str, content: dict[str, Any]) -> None:
        if not self.filesystem.publish(path, _encode(kind, content)):
            raise CheckpointError(
                f"{path} was written by another load of the same output meanwhile; run it again"
            )

    def _read(self, path: str, name: str, kind: type[T], *, altered: bool = False) -> T:
        try:
            found = json.loads(self.filesystem.read(path))
        except FileNotFoundError:
            raise AlteredCheckpoint(f"{path} does not exist. {RESTORE}") from None
        except ValueError as error:
            raise AlteredCheckpoint(f"{path} is damaged ({error}). {RESTORE}") from None
        if not isinstance(found, dict) or found.get("format") != f"zkbroker-load-{name}":
            raise AlteredCheckpoint(f"{path} is not a {name} of a load. {RESTORE}")
        if found.get("version") != VERSION:
            raise CheckpointError(
                f"{path} has version {found.get('version')}; this release reads version {VERSION}"
            )
        # Only manifests have a checksum, and none of the first releases has one.
        if not altered and found.get("checksum", _checksum(found)) != _checksum(found):
            raise AlteredCheckpoint(f"{path} was altered: its checksum is another. {RESTORE}")
        try:
            return from_json(kind, found)
        except ValueError as error:
            raise AlteredCheckpoint(f"{path} is damaged ({error}). {RESTORE}") from None


def _run(run: int) -> str:
    return f"{run:06d}"


def manifest_name(run: int) -> str:
    """Return the file name of a run's manifest."""
    return f"{_run(run)}.json"


def lengths(files: Iterable[DataFile]) -> list[tuple[str, int]]:
    """Return paths and lengths, as an inventory counts them."""
    return [(each.path, each.size_bytes) for each in files]


def _checksum(document: dict[str, Any]) -> str:
    """Return the SHA-256 of a document without its checksum, however it is laid out."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _encode(kind: str, content: dict[str, Any]) -> bytes:
    document = {"format": f"zkbroker-load-{kind}", "version": VERSION, **content}
    if kind == "manifest":
        document["checksum"] = _checksum(document)
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
