"""What checkpoints are about: gaps, files, plans, mappers' offsets, manifests.

`checkpoint.py` says where they are kept and which of them counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spark_loader.json_codec import to_json, written
from spark_loader.lake.inventory import Inventory
from spark_loader.reading.positions import TopicPartition, partition_from_json
from spark_loader.reading.runs import joined
from spark_loader.reading.splits import OffsetRange
from zkbroker.types import Partition07


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


def _absent_to_json(absent: Iterable[Gap]) -> list[dict[str, Any]]:
    """Return absent offsets by partition and cause: logs of transactions have one at each end."""
    grouped: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for each in absent:
        key = each.topic, each.partition, each.cause
        grouped.setdefault(key, []).append((each.start, each.until))
    return [
        {
            "topic": topic,
            "partition": to_json(partition),
            "cause": cause,
            "offsets": joined(runs),
        }
        for (topic, partition, cause), runs in grouped.items()
    ]


def _absent_from_json(found: Iterable[dict[str, Any]]) -> tuple[Gap, ...]:
    """Return absent offsets; checkpoints of older releases have one entry for each run."""
    return tuple(
        Gap(each["topic"], partition_from_json(each["partition"]), start, until, each["cause"])
        for each in found
        for start, until in each.get("offsets") or [(each["from"], each["until"])]
    )


_ABSENT = written(_absent_to_json, _absent_from_json)
_RUNS = written(
    lambda runs: to_json(runs) or None,
    lambda found: tuple((start, until) for start, until in found),
)


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
        offsets: `[start, until)` runs of the offsets it holds, where the file itself has none; of
            a log of Kafka 0.7 the bytes of the entries that end in it.
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
    offsets: tuple[tuple[int, int], ...] = field(default=(), metadata=_RUNS)

    @property
    def accounted(self) -> int:
        """How many offsets it accounts for: its rows, or bytes of a log of Kafka 0.7."""
        if isinstance(self.partition, Partition07):
            return sum(until - start for start, until in self.offsets)
        return self.rows


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
        topics_created_ms: when each topic was created, as far as the cluster told.
        read_committed: whether its ranges were found, and are read, as a reader of committed
            records does.
    """

    run: int
    created: str
    mappers: tuple[tuple[OffsetRange, ...], ...]
    gaps: tuple[Gap, ...] = ()
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)
    topics_created_ms: dict[str, int] = field(default_factory=dict)
    read_committed: bool = False

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
        absent: offsets the log has no record for (control records, compaction), or only records
            of aborted transactions.
    """

    run: int
    mapper: int
    attempt: str
    ranges: tuple[OffsetRange, ...]
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = field(default=(), metadata=_ABSENT)
    rows: int = 0
    value_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What counts after a run, or after an operator moved a position.

    Attributes:
        kind: `load`, `rewind`, `set`, `replay` or `adopt`.
        ranges: offsets this run accounts for.
        withdrawn: paths of files of earlier runs that no longer count.
        positions: next offset of every partition known, this run's or not.
        group: consumer group its offsets are committed for, or empty.
        topics_created_ms: when the topics were created that the positions are of.
        beginning: run of the last `adopt`; manifests before it are history. 0 for none.
        lake: what data and quarantine files count after this manifest.
        earlier: which manifests since `beginning` lie before this one.

    `lake` and `earlier` are set when a manifest is written; those of older releases have none.
    """

    run: int
    kind: str
    created: str
    note: str = ""
    group: str = ""
    rows: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)
    topics_created_ms: dict[str, int] = field(default_factory=dict)
    beginning: int = 0
    lake: Inventory | None = None
    earlier: Inventory | None = None
    ranges: tuple[OffsetRange, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = field(default=(), metadata=_ABSENT)
    withdrawn: tuple[str, ...] = ()
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()


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
