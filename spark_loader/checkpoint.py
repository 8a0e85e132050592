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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from spark_loader.errors import CheckpointError
from spark_loader.files import FileSystem, join
from spark_loader.positions import TopicPartition, flat_numbers, partition_numbers
from spark_loader.splits import OffsetRange

VERSION = 1
STATE = "_zkbroker"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `[start, until)` that will never be loaded, and why."""

    topic: str
    partition: int
    start: int
    until: int
    cause: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.until}): {self.cause}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of loaded or quarantined records.

    Attributes:
        path: relative to the output directory.
        staged: where it lies until the run is published.
        start: offset of its first record.
        until: offset of its last record, plus one.
        rows: number of records.
        size_bytes: length of the file.
        sha256: of the whole file.
        offsets: `[start, until)` runs of the offsets it holds, where the file itself has none.
    """

    path: str
    staged: str
    topic: str
    partition: int
    start: int
    until: int
    rows: int
    size_bytes: int
    sha256: str
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run will load: fixed before the first byte is read.

    Attributes:
        run: number, counted from 1.
        mappers: offset ranges of each mapper.
        gaps: offsets given up while planning.
        positions: where the run starts in each of its partitions.
        log_starts: earliest offset of each partition when it was planned.
        log_ends: log end offset of each partition when it was planned.
    """

    run: int
    created: str
    mappers: tuple[tuple[OffsetRange, ...], ...]
    gaps: tuple[Gap, ...] = ()
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def ranges(self) -> list[OffsetRange]:
        """All ranges, by topic, partition and offset."""
        flat = [each for mapper in self.mappers for each in mapper]
        return sorted(flat, key=lambda r: (r.topic, r.partition, r.start))


@dataclass(frozen=True, slots=True, kw_only=True)
class MapperOffsets:
    """What one mapper did: the line between done and not done.

    Attributes:
        attempt: token in the names of its files; another attempt's files do not count.
        absent: offsets the log has no record for (control records, compaction).
    """

    run: int
    mapper: int
    attempt: str
    ranges: tuple[OffsetRange, ...]
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = ()
    rows: int = 0
    value_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What counts after a run, or after an operator moved a position.

    Attributes:
        kind: `load`, `rewind`, `set` or `replay`.
        ranges: offsets this run accounts for.
        withdrawn: paths of files of earlier runs that no longer count.
        positions: next offset of every partition known, this run's or not.
        group: consumer group its offsets are committed for, or empty.
    """

    run: int
    created: str
    kind: str
    ranges: tuple[OffsetRange, ...] = ()
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()
    withdrawn: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = ()
    rows: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)
    group: str = ""
    note: str = ""


class Checkpoints:
    """The checkpoint files of one output directory."""

    def __init__(self, filesystem: FileSystem, output: str) -> None:
        self._fs = filesystem
        self.output = output.removeprefix("file://").rstrip("/") or "/"

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
            mappers=tuple(_ranges(mapper) for mapper in found["mappers"]),
            gaps=_gaps(found["gaps"]),
            positions=flat_numbers(found["positions"]),
            log_starts=flat_numbers(found["log_starts"]),
            log_ends=flat_numbers(found["log_ends"]),
        )

    def write_plan(self, plan: Plan) -> None:
        """Write a plan; raise CheckpointError when another run took the number meanwhile."""
        content = {
            "run": plan.run,
            "created": plan.created,
            "mappers": [_range_list(mapper) for mapper in plan.mappers],
            "gaps": _gap_list(plan.gaps),
            "positions": partition_numbers(plan.positions),
            "log_starts": partition_numbers(plan.log_starts),
            "log_ends": partition_numbers(plan.log_ends),
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
            ranges=_ranges(found["ranges"]),
            files=_files(found["files"]),
            quarantined=_files(found["quarantined"]),
            gaps=_gaps(found["gaps"]),
            absent=_gaps(found["absent"]),
            rows=found["rows"],
            value_bytes=found["value_bytes"],
        )

    def write_mapper_offsets(self, done: MapperOffsets) -> bool:
        """Write a mapper's offsets; False when another attempt of it was first."""
        content = {
            "run": done.run,
            "mapper": done.mapper,
            "attempt": done.attempt,
            "ranges": _range_list(done.ranges),
            "next_offsets": partition_numbers({each.source: each.until for each in done.ranges}),
            "files": _file_list(done.files),
            "quarantined": _file_list(done.quarantined),
            "gaps": _gap_list(done.gaps),
            "absent": _gap_list(done.absent),
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
            ranges=_ranges(found["ranges"]),
            files=_files(found["files"]),
            quarantined=_files(found["quarantined"]),
            withdrawn=tuple(found["withdrawn"]),
            gaps=_gaps(found["gaps"]),
            absent=_gaps(found["absent"]),
            rows=found["rows"],
            positions=flat_numbers(found["positions"]),
            log_starts=flat_numbers(found["log_starts"]),
            log_ends=flat_numbers(found["log_ends"]),
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
            "ranges": _range_list(manifest.ranges),
            "gaps": _gap_list(manifest.gaps),
            "absent": _gap_list(manifest.absent),
            "withdrawn": list(manifest.withdrawn),
            "files": _file_list(manifest.files),
            "quarantined": _file_list(manifest.quarantined),
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


def now_text() -> str:
    """Return the time as checkpoints hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def live(manifests: Iterable[Manifest]) -> tuple[list[DataFile], list[DataFile]]:
    """Return the data files and the quarantine files that count after all these manifests."""
    data: dict[str, DataFile] = {}
    quarantined: dict[str, DataFile] = {}
    for manifest in manifests:
        for path in manifest.withdrawn:
            data.pop(path, None)
            quarantined.pop(path, None)
        data.update((each.path, each) for each in manifest.files)
        quarantined.update((each.path, each) for each in manifest.quarantined)
    return list(data.values()), list(quarantined.values())


def _run(run: int) -> str:
    return f"{run:06d}"


def _encode(kind: str, content: dict[str, Any]) -> bytes:
    document = {"format": f"zkbroker-load-{kind}", "version": VERSION, **content}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _range_list(ranges: Iterable[OffsetRange]) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "from": each.start,
            "until": each.until,
            "estimated_bytes": each.estimated_bytes,
        }
        for each in ranges
    ]


def _ranges(found: Iterable[dict[str, Any]]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(
            each["topic"], each["partition"], each["from"], each["until"], each["estimated_bytes"]
        )
        for each in found
    )


def _gap_list(gaps: Iterable[Gap]) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "from": each.start,
            "until": each.until,
            "cause": each.cause,
        }
        for each in gaps
    ]


def _gaps(found: Iterable[dict[str, Any]]) -> tuple[Gap, ...]:
    return tuple(
        Gap(each["topic"], each["partition"], each["from"], each["until"], each["cause"])
        for each in found
    )


def _file_list(files: Iterable[DataFile]) -> list[dict[str, Any]]:
    listed = []
    for each in files:
        content = asdict(each)
        content["from"] = content.pop("start")
        content["bytes"] = content.pop("size_bytes")
        if not content["offsets"]:
            del content["offsets"]
        listed.append(content)
    return listed


def _files(found: Iterable[dict[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(
            path=each["path"],
            staged=each["staged"],
            topic=each["topic"],
            partition=each["partition"],
            start=each["from"],
            until=each["until"],
            rows=each["rows"],
            size_bytes=each["bytes"],
            sha256=each["sha256"],
            offsets=tuple((start, until) for start, until in each.get("offsets", ())),
        )
        for each in found
    )
