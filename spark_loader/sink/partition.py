"""Writes the rows of a mapper, one file per topic and hour: Parquet, JSON lines or raw.

    batch ─▶ columns of values ─▶ event time per row ─▶ rows by hour ─▶ buffers ─▶ file
                  │                       │                                └─▶ spool, when too many
                  └─▶ bad rows            └─▶ rows without one                 hours have one open
                        └───────────────────────┴─▶ quarantine

Invariant: every row given is in exactly one file or in quarantine. A Parquet file holds rows of all
partitions of the mapper, one partition after the other, offsets ascending in each; JSON and raw
files hold rows of one. A topic and hour gets a second file only after the first has reached
`target_bytes`, however many hours there are. Memory is bounded by `buffer_bytes`, open files by
`open_files`.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.columns.spec import ValueColumns
from spark_loader.lake.contents import extent_of
from spark_loader.lake.ledger import DataFile, TableFile
from spark_loader.reading.columns import POSITION
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import covered, joined, runs
from spark_loader.sink.data_formats import DATA_FORMATS
from spark_loader.sink.event_time import EventTime
from spark_loader.sink.hours import EventTimes
from spark_loader.sink.quarantine import Quarantine
from spark_loader.sink.rows import COMPRESSIONS, ParquetRows, RowWriter
from spark_loader.sink.spool import Spool
from spark_loader.sink.statistics import statistics
from spark_loader.storage.files import (
    HashingFile,
    LakeFileSystem,
    OutputFile,
    file_name,
    join,
)

_COMMITS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How rows become files.

    Attributes:
        format: `parquet`, `json` (one object per line) or `raw` (values, one per line).
        event_time: where the time of an event comes from.
        columns: columns that values are turned into; None for none.
        fallback: for a record without an event time: `quarantine`, the message `timestamp` or the
            `load-time` (when the run was planned).
        load_time_ms: the load time.
        target_bytes: a file is closed when it has about this many bytes.
        buffer_bytes: size of the buffers of all files at which the largest is written.
        open_files: files open at once in one mapper; rows of more hours wait on local disk.
        compression: codec of Parquet pages.
        max_quarantined: records one mapper may quarantine before it fails; None for any number.
    """

    format: str = "parquet"
    event_time: EventTime = field(default_factory=EventTime)
    columns: ValueColumns | None = None
    fallback: str = "quarantine"
    load_time_ms: int = 0
    target_bytes: int = 128 * 1024 * 1024
    buffer_bytes: int = 64 * 1024 * 1024
    open_files: int = 64
    compression: str = COMPRESSIONS[0]
    max_quarantined: int | None = 1000


@dataclass(slots=True)
class _OpenFile:
    directory: str
    place: str
    output: OutputFile
    sink: HashingFile
    rows: RowWriter
    start: int
    until: int = 0
    count: int = 0
    offsets: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Buffer:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class MapperSink:
    """Writes the rows of one attempt of a mapper: partition by partition, offsets ascending.

    Args:
        filesystem: where files go.
        output: the output directory.
        staging: directory below it where files beside the table lie until the run is published.
        token: unique to this attempt; part of every file's name.
        options: formats and sizes.
    """

    def __init__(
        self,
        filesystem: LakeFileSystem,
        output: str,
        staging: str,
        token: str,
        options: SinkOptions,
    ) -> None:
        self._fs = filesystem
        self._output = output
        self._staging = staging
        self._token = token
        self._options = options
        self._format = DATA_FORMATS[options.format]
        self._times = EventTimes(options.event_time, options.fallback, options.load_time_ms)
        self._columns = options.columns.rows() if options.columns is not None else None
        self._source: TopicPartition | None = None
        self._buffers: dict[str, _Buffer] = {}
        self._buffered = 0
        self._open: dict[str, _OpenFile] = {}
        self._spool = Spool()
        self._closed: list[OutputFile] = []
        self._made = 0
        self._quarantines: list[Quarantine] = []
        self.tabled: list[TableFile] = []
        self.files: list[DataFile] = []
        self.schema: pa.Schema | None = None
        self.rows = 0
        self.value_bytes = 0

    @property
    def quarantined(self) -> list[DataFile]:
        """The quarantine files."""
        return [file for each in self._quarantines for file in each.files]

    def begin(self, source: TopicPartition) -> None:
        """Begin the rows of another partition; each partition comes once."""
        self._end_partition()
        self._source = source
        number = len(self._quarantines)
        last = self._quarantines[-1] if self._quarantines else None
        self._quarantines.append(
            Quarantine(
                self._fs,
                self._output,
                source,
                self._staging,
                f"{self._token}-{number}",
                self._options.max_quarantined,
                last.before + last.count if last is not None else 0,
            )
        )

    def add_damaged(self, entry: DamagedEntry) -> None:
        """Quarantine an entry of the partition's log that cannot be decoded."""
        self._quarantines[-1].add_damaged(entry)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; raise QuarantineLimit when too many have no event time."""
        self.value_bytes += batch.column("value").nbytes
        timed, times = self._timed(self._typed(batch))
        if timed.num_rows == 0:
            return
        self.rows += timed.num_rows
        stored = _stored(timed, times)
        assert self._source is not None
        for hour, rows in self._times.by_hour(stored, times):
            self._buffer(f"topic={self._source.topic}/{hour}", rows)
        while self._buffered > self._options.buffer_bytes:
            self._flush(max(self._buffers, key=lambda place: self._buffers[place].size_bytes))

    def finish(self) -> None:
        """Make every file durable; `tabled`, `files` and `quarantined` are complete after."""
        self._close_all()
        self._commit()
        if self._quarantines:
            self._quarantines[-1].finish()

    def _end_partition(self) -> None:
        if self._source is None:
            return
        if not self._format.in_table:
            # Formats beside the table: their rows do not name a partition, or it is not read back.
            self._close_all()
        self._quarantines[-1].finish()

    def _close_all(self) -> None:
        for place in sorted(self._buffers):
            self._flush(place)
        for place in list(self._open):
            self._close(place)
        for place in self._spool.places():
            for table in _joined(self._spool.take(place), self._flush_bytes):
                self._append(place, table)
            if place in self._open:
                self._close(place)
        self._spool.close()

    def discard(self) -> None:
        """Remove every file this attempt wrote."""
        for each in self._open.values():
            each.sink.cancel()
            each.rows.close()
            each.output.discard()
        self._open.clear()
        self._spool.close()
        for output in self._closed:
            output.discard()
        for done in self.tabled:
            self._fs.delete(join(self._output, done.path))
        for kept in [*self.files, *self.quarantined]:
            self._fs.delete(join(self._output, kept.staged))

    def _commit(self) -> None:
        """Make complete files durable together, which devices do far faster."""
        outputs, self._closed = self._closed, []
        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as pool:
            list(pool.map(lambda output: output.commit(), outputs))

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of their values; quarantine bad rows."""
        if self._columns is None:
            return batch
        typed, reasons = self._columns.add(batch)
        return typed.filter(self._set_aside(batch, reasons)) if reasons else typed

    def _set_aside(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> pa.Array:
        """Quarantine rows, by index; return the rows that are left."""
        self._quarantines[-1].add(batch, reasons)
        bad = pa.array(sorted(reasons), pa.int64())
        return pc.invert(pc.is_in(pa.array(range(batch.num_rows), pa.int64()), bad))

    def _timed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Return the rows that have an event time, and the times in ms; quarantine the others."""
        times, reasons = self._times.of(batch)
        if not reasons:
            return batch, times
        good = self._set_aside(batch, reasons)
        return batch.filter(good), times.filter(good)

    def _buffer(self, directory: str, rows: pa.RecordBatch) -> None:
        buffer = self._buffers.setdefault(directory, _Buffer())
        size_bytes = rows.nbytes
        buffer.batches.append(rows)
        buffer.size_bytes += size_bytes
        self._buffered += size_bytes
        if buffer.size_bytes >= self._flush_bytes:
            self._flush(directory)

    @property
    def _flush_bytes(self) -> int:
        """Bytes of an hour's rows that are worth a row group."""
        return min(self._options.buffer_bytes // 2, self._options.target_bytes)

    def _flush(self, directory: str) -> None:
        """Write the buffer of an hour into its file, or spool it."""
        buffer = self._buffers.pop(directory)
        self._buffered -= buffer.size_bytes
        table = pa.Table.from_batches(buffer.batches)
        if table.num_rows == 0:
            return
        full = directory not in self._open and len(self._open) >= self._options.open_files
        # Once rows of an hour are spooled, later ones have to follow them there.
        if full or directory in self._spool:
            self._spool.put(directory, table)
        else:
            self._append(directory, table)

    def _append(self, directory: str, table: pa.Table) -> None:
        """Write rows into the file of an hour, opening and closing it as needed."""
        opened = self._open.get(directory)
        if opened is None:
            opened = self._create(directory, table.schema)
            self._open[directory] = opened
        opened.rows.write(table)
        opened.count += table.num_rows
        if not self._format.in_table:
            start, opened.until = extent_of(table)
            opened.start = start if opened.start < 0 else opened.start
            offsets = table.column("offset").combine_chunks()
            if POSITION in table.schema.names:
                opened.offsets.extend(covered(table.column(POSITION).combine_chunks(), offsets))
            elif self._format.offset_columns is None:
                opened.offsets.extend(runs(offsets))
        if opened.sink.size_bytes >= self._options.target_bytes:
            self._close(directory)

    def _create(self, directory: str, schema: pa.Schema) -> _OpenFile:
        number = self._made
        self._made += 1
        if self._format.in_table:
            # Written at its final place: no reader sees it before a commit names it.
            place = f"{directory}/part-{number:05d}-{self._token}.{self._format.suffix}"
            self.schema = schema if self.schema is None else pa.unify_schemas([self.schema, schema])
        else:
            place = f"{self._staging}/{self._token}+{self._source}+{number}"
        output = self._fs.create(join(self._output, place))
        sink = HashingFile(output)
        rows = self._format.writer(sink, schema, self._options.compression)
        return _OpenFile(directory, place, output, sink, rows, start=-1)

    def _close(self, directory: str) -> None:
        opened = self._open[directory]
        opened.rows.close()
        self._closed.append(opened.output)
        if len(self._closed) >= self._options.open_files:
            self._commit()
        del self._open[directory]
        if isinstance(opened.rows, ParquetRows):
            self.tabled.append(
                TableFile(
                    path=opened.place,
                    rows=opened.count,
                    size_bytes=opened.sink.size_bytes,
                    sha256=opened.sink.sha256,
                    stats=statistics(opened.rows.metadata),
                )
            )
            return
        assert self._source is not None
        name = file_name(self._source, opened.start, opened.until, self._token, self._format.suffix)
        self.files.append(
            DataFile(
                path=f"{opened.directory}/{name}",
                staged=opened.place,
                topic=self._source.topic,
                partition=self._source.partition,
                start=opened.start,
                until=opened.until,
                rows=opened.count,
                size_bytes=opened.sink.size_bytes,
                sha256=opened.sink.sha256,
                offsets=tuple(joined(opened.offsets)),
            )
        )


def _joined(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Join batches into tables of at least `size_bytes`, the last one aside."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= size_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _stored(batch: pa.RecordBatch, times: pa.Array) -> pa.RecordBatch:
    """Return the columns of a data file: all but the topic, which the directory names."""
    names = [name for name in batch.schema.names if name != "topic"]
    arrays = [batch.column(name) for name in names]
    event_time = times.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([*arrays, event_time], names=[*names, "event_time"])
