"""Records of checkpoints: gaps, files, plans, mappers' offsets, entries of the ledger.

`checkpoint.py` says where plans and offsets are kept, `table.py` where entries are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spark_loader.json_codec import to_json, written
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

    @property
    def source(self) -> TopicPartition:
        """The partition that they are from."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.source} [{self.start}, {self.until}): {self.cause}"


def _absent_to_json(absent: Iterable[Gap]) -> list[dict[str, Any]]:
    """Return absent offsets grouped by partition and cause: each transaction leaves one."""
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
    """Return absent offsets; older releases wrote one item for each run of offsets."""
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


def _checksums_from_json(found: object) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("checksums are not an object of text")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A Parquet file of the table, complete at its place before a commit names it.

    Attributes:
        path: relative to the output directory; its directories name topic, date and hour.
        rows: number of records, of any number of partitions.
        size_bytes: length of the file.
        sha256: of the whole file.
        stats: rows, least and greatest values and nulls, as the Delta protocol writes them.
    """

    path: str
    rows: int
    size_bytes: int
    sha256: str
    stats: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file beside the table: a partition's quarantined records, or its rows as JSON or raw lines.

    Attributes:
        path: relative to the output directory.
        staged: path until the run is published.
        start: offset of its first record.
        until: offset of its last record, plus one.
        rows: number of records.
        size_bytes: length of the file.
        sha256: of the whole file.
        offsets: `[start, until)` runs of its offsets, where the file itself does not hold them; for
            Kafka 0.7 the bytes of the entries that end in it.
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
    def source(self) -> TopicPartition:
        """The partition that its records are from."""
        return TopicPartition(self.topic, self.partition)

    @property
    def accounted(self) -> int:
        """Number of offsets it accounts for: its rows, or bytes of a log of Kafka 0.7."""
        if isinstance(self.partition, Partition07):
            return sum(until - start for start, until in self.offsets)
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The offsets that a run will load, fixed before the first byte is read.

    Attributes:
        run: number, counted from 1.
        mappers: offset ranges of each mapper.
        gaps: offsets given up while planning.
        positions: where the run starts in each of its partitions.
        log_starts: earliest offset of each partition when it was planned.
        log_ends: log end offset of each partition when it was planned.
        topics_created_ms: when each topic was created, as far as the cluster knows.
        read_committed: whether its ranges are planned and read with isolation level
            `read_committed`.
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
    def topics(self) -> set[str]:
        """Its topics."""
        return {source.topic for source in self.positions} | {each.topic for each in self.ranges}

    @property
    def ranges(self) -> list[OffsetRange]:
        """All ranges, by topic, partition and offset."""
        flat = [each for mapper in self.mappers for each in mapper]
        return sorted(flat, key=lambda r: (r.topic, r.partition, r.start))


@dataclass(frozen=True, slots=True, kw_only=True)
class MapperOffsets:
    """The result of one mapper, which is done once this is written.

    Attributes:
        attempt: token in the names of its files; another attempt's files do not count.
        tabled: its files of the table.
        schema: the columns of those, an Arrow schema as base64; empty without any.
        files: its files beside the table.
        absent: offsets without a record (control records, compaction), or with a record of an
            aborted transaction.
    """

    run: int
    mapper: int
    attempt: str
    ranges: tuple[OffsetRange, ...]
    tabled: tuple[TableFile, ...] = ()
    schema: str = ""
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = field(default=(), metadata=_ABSENT)
    rows: int = 0
    value_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The record of a commit in the ledger, in addition to the table's own metadata.

    Attributes:
        run: number of the run; 0 for commits that move no position (`seal`, `optimize`).
        kind: `load`, `rewind`, `set`, `replay`, `adopt`, `seal` or `optimize`.
        ranges: offsets this run accounts for; for a rewind, those that it withdraws.
        rows: records that this run added.
        size_bytes: length of the files that it added.
        positions: next offset of every partition known, this run's or not.
        group: consumer group its offsets are committed for, or empty.
        topics_created_ms: when the topics of the positions were created.
        beginning: run of the last `adopt`; entries before it are history. 0 for none.
        checksums: SHA-256 of files of the table, by path.
        files, quarantined: files beside the table that count from here on.
        withdrawn: paths of such files of earlier runs that no longer count.
        beside: how many files beside the table count after it.
        zones: time zones that the hours of files are in, of this run and of earlier ones.
        settled: every run up to this one counts, or was given up.
        counted: later runs that count.
    """

    run: int
    kind: str
    created: str
    note: str = ""
    group: str = ""
    rows: int = 0
    size_bytes: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)
    topics_created_ms: dict[str, int] = field(default_factory=dict)
    beginning: int = 0
    beside: int = 0
    zones: tuple[str, ...] = ()
    settled: int = 0
    counted: tuple[int, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    gaps: tuple[Gap, ...] = ()
    absent: tuple[Gap, ...] = field(default=(), metadata=_ABSENT)
    checksums: dict[str, str] = field(
        default_factory=dict, metadata=written(dict, _checksums_from_json)
    )
    withdrawn: tuple[str, ...] = ()
    files: tuple[DataFile, ...] = ()
    quarantined: tuple[DataFile, ...] = ()

    def counts(self, run: int) -> bool:
        """Return whether a run counts, or was given up, when this is the last entry."""
        return run <= self.settled or run in self.counted

    @property
    def last(self) -> int:
        """The highest number of a run that counts."""
        return max((self.settled, *self.counted))


def now_text() -> str:
    """Return the time as checkpoints hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def total_bytes(tabled: Iterable[TableFile], files: Iterable[DataFile]) -> int:
    """Return the length of files of the table and of files beside it, together."""
    return sum(each.size_bytes for each in tabled) + sum(each.size_bytes for each in files)


def beside(entries: Iterable[Entry]) -> tuple[list[DataFile], list[DataFile]]:
    """Return the data files and the quarantine files beside the table after all these entries."""
    data: dict[str, DataFile] = {}
    quarantined: dict[str, DataFile] = {}
    for entry in entries:
        for path in entry.withdrawn:
            data.pop(path, None)
            quarantined.pop(path, None)
        data.update((each.path, each) for each in entry.files)
        quarantined.update((each.path, each) for each in entry.quarantined)
    return list(data.values()), list(quarantined.values())
