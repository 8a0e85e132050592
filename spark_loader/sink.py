"""Writes rows into one file per topic, partition and hour: Parquet, JSON lines or raw.

    batch ─▶ event time per row ─▶ rows by hour ─▶ buffers ─▶ staged file
                    └─▶ rows without one ─▶ quarantine

Invariant: every row given is in exactly one file or in quarantine. The files of one partition and
hour hold disjoint, ascending offset ranges. Memory is bounded by `buffer_bytes`, open files by
`open_files`.
"""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_loader.checkpoint import STATE, DataFile
from spark_loader.errors import QuarantineLimit
from spark_loader.eventtime import EventTime, Extractor, HourNames, TimeError
from spark_loader.files import FileSystem, HashingFile, OutputFile, join
from spark_loader.positions import TopicPartition
from spark_loader.reader import DamagedEntry, runs

FORMATS = {"parquet": "parquet", "json": "jsonl", "raw": "txt"}
FALLBACKS = ("quarantine", "timestamp", "load-time")

_QUARTER_MS = 900_000
_COMMITS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How rows become files.

    Attributes:
        format: `parquet`, `json` (one object per line) or `raw` (values, one per line).
        event_time: where the time of an event comes from.
        fallback: what becomes of a record without one: `quarantine`, the message `timestamp`
            or the `load-time` (when the run was planned).
        load_time_ms: that time.
        target_bytes: a file is closed when it has about this many bytes.
        buffer_bytes: rows held back, over all files, before the largest buffer is written.
        open_files: files open at once in one mapper.
        compression: codec of Parquet pages.
        max_quarantined: records one mapper may quarantine before it fails; None for any number.
    """

    format: str = "parquet"
    event_time: EventTime = field(default_factory=EventTime)
    fallback: str = "quarantine"
    load_time_ms: int = 0
    target_bytes: int = 128 * 1024 * 1024
    buffer_bytes: int = 64 * 1024 * 1024
    open_files: int = 64
    compression: str = "snappy"
    max_quarantined: int | None = 1000


class RowWriter(Protocol):
    """Writes batches in one format."""

    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class ParquetRows:
    """Parquet; keys and values are bytes, times are microseconds UTC."""

    def __init__(self, sink: HashingFile, schema: pa.Schema, compression: str) -> None:
        # Dictionaries only where values repeat: for keys and values they cost more than they save.
        repeating = [name for name in ("timestampType", "partition") if name in schema.names]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            schema,
            compression=compression,
            use_dictionary=repeating,
            write_statistics=["offset", "timestamp", "event_time"],
            store_schema=False,
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


class JsonRows:
    """One JSON object per line; bytes that are no UTF-8 text go base64 into `…_base64`."""

    def __init__(self, sink: HashingFile) -> None:
        self._sink = sink

    def write(self, table: pa.Table) -> None:
        lines = []
        for row in _times_as_ms(table).to_pylist():
            content: dict[str, Any] = {}
            for name, value in row.items():
                if isinstance(value, bytes):
                    content.update(_text_or_base64(name, value))
                elif name == "headers":
                    content[name] = [
                        {"key": each["key"], **_text_or_base64("value", each["value"])}
                        for each in value or ()
                    ]
                else:
                    content[name] = value
            lines.append(json.dumps(content, ensure_ascii=False))
        lines.append("")
        self._sink.write("\n".join(lines).encode())

    def close(self) -> None:
        """Nothing is held back."""


class RawRows:
    """Values as they are, each followed by a newline; a null value is an empty line."""

    def __init__(self, sink: HashingFile) -> None:
        self._sink = sink

    def write(self, table: pa.Table) -> None:
        values = table.column("value").to_pylist()
        self._sink.write(b"".join(b"\n" if value is None else value + b"\n" for value in values))

    def close(self) -> None:
        """Nothing is held back."""


@dataclass(slots=True)
class _OpenFile:
    directory: str
    staged: str
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


class PartitionSink:
    """Writes the rows of one partition, offsets ascending, for one attempt of a mapper.

    Args:
        filesystem: where files go.
        output: the output directory.
        source: the partition.
        staging: directory below it where files lie until the run is published.
        token: unique to this attempt; part of every file's name.
        options: formats and sizes.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        output: str,
        source: TopicPartition,
        staging: str,
        token: str,
        options: SinkOptions,
    ) -> None:
        self._fs = filesystem
        self._output = output
        self._source = source
        self._staging = staging
        self._token = token
        self._options = options
        self._hours = HourNames(options.event_time.zone)
        self._extractor = (
            None if options.event_time.source == "timestamp" else Extractor(options.event_time)
        )
        self._buffers: dict[str, _Buffer] = {}
        self._buffered = 0
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[OutputFile] = []
        self._made = 0
        self.files: list[DataFile] = []
        self.quarantine = Quarantine(
            filesystem, output, source, staging, token, options.max_quarantined
        )
        self.rows = 0
        self.value_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; raise QuarantineLimit when too many have no event time."""
        self.value_bytes += batch.column("value").nbytes
        timed, times = self._timed(batch)
        if timed.num_rows == 0:
            return
        self.rows += timed.num_rows
        stored = _stored(timed, times)
        for hour, rows in self._by_hour(stored, times):
            self._buffer(hour, rows)
        while self._buffered > self._options.buffer_bytes:
            self._flush(max(self._buffers, key=lambda hour: self._buffers[hour].size_bytes))

    def finish(self) -> None:
        """Make every file durable; `files` and `quarantine.files` are complete after."""
        for hour in sorted(self._buffers):
            self._flush(hour)
        for hour in list(self._open):
            self._close(hour)
        self._commit()
        self.quarantine.finish()

    def discard(self) -> None:
        """Remove every file this attempt wrote."""
        for each in self._open.values():
            each.sink.cancel()
            each.rows.close()
            each.output.discard()
        self._open.clear()
        for output in self._closed:
            output.discard()
        self.quarantine.discard()
        for done in [*self.files, *self.quarantine.files]:
            self._fs.delete(join(self._output, done.staged))

    def _commit(self) -> None:
        """Make the files that are complete durable, together: devices do that far faster."""
        outputs, self._closed = self._closed, []
        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as pool:
            list(pool.map(lambda output: output.commit(), outputs))

    def _timed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Return the rows that have an event time, and the times in ms; quarantine the others."""
        stamps = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        reasons: dict[int, str] = {}
        if self._extractor is None:
            times = stamps
            lowest = pc.min(stamps).as_py()
            if lowest is not None and lowest >= 0:
                return batch, times
            negative = pc.indices_nonzero(pc.less(stamps, 0)).to_pylist()
            reasons = dict.fromkeys(negative, "the message has no timestamp (message format 0)")
        else:
            found, reasons = self._extractor.times_ms(batch.column("value").to_pylist())
            self._check_calendar(found, reasons)
            times = pa.array(found, pa.int64())
        if not reasons:
            return batch, times
        if self._options.fallback == "load-time":
            times = self._filled(times, reasons, pa.scalar(self._options.load_time_ms, pa.int64()))
            return batch, times
        if self._options.fallback == "timestamp" and self._extractor is not None:
            times = self._filled(times, reasons, stamps)
            reasons = {
                index: f"{reason}, and the message has no timestamp"
                for index, reason in reasons.items()
                if times[index].as_py() < 0
            }
            if not reasons:
                return batch, times
        self.quarantine.add(batch, reasons)
        bad = pa.array(sorted(reasons), pa.int64())
        good = pc.invert(pc.is_in(pa.array(range(batch.num_rows), pa.int64()), bad))
        return batch.filter(good), times.filter(good)

    def _filled(self, times: pa.Array, reasons: dict[int, str], instead: Any) -> pa.Array:
        bad = pa.array(sorted(reasons), pa.int64())
        mask = pc.is_in(pa.array(range(len(times)), pa.int64()), bad)
        return pc.if_else(mask, instead, times)

    def _check_calendar(self, times: list[int | None], reasons: dict[int, str]) -> None:
        for index, time_ms in enumerate(times):
            if time_ms is None:
                continue
            try:
                self._hours.of(time_ms)
            except TimeError as error:
                times[index] = None
                reasons[index] = str(error)

    def _by_hour(self, rows: pa.RecordBatch, times: pa.Array) -> list[tuple[str, pa.RecordBatch]]:
        quarters = _floor_divide(times, _QUARTER_MS)
        distinct = pc.unique(quarters)
        names = [self._hours.of(quarter * _QUARTER_MS) for quarter in distinct.to_pylist()]
        order = {name: index for index, name in enumerate(dict.fromkeys(names))}
        if len(order) == 1:
            return [(names[0], rows)]
        number_of = pa.array([order[name] for name in names], pa.int32())
        numbers = number_of.take(pc.index_in(quarters, value_set=distinct))
        # A stable sort keeps offsets ascending within each hour.
        arranged = rows.take(pc.array_sort_indices(numbers))
        counts = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
        grouped = []
        position = 0
        for name, number in order.items():
            grouped.append((name, arranged.slice(position, counts[number])))
            position += counts[number]
        return grouped

    def _buffer(self, hour: str, rows: pa.RecordBatch) -> None:
        buffer = self._buffers.setdefault(hour, _Buffer())
        size_bytes = rows.nbytes
        buffer.batches.append(rows)
        buffer.size_bytes += size_bytes
        self._buffered += size_bytes
        if buffer.size_bytes >= min(self._options.buffer_bytes // 2, self._options.target_bytes):
            self._flush(hour)

    def _flush(self, hour: str) -> None:
        buffer = self._buffers.pop(hour)
        self._buffered -= buffer.size_bytes
        table = pa.Table.from_batches(buffer.batches)
        if table.num_rows == 0:
            return
        offsets = table.column("offset")
        opened = self._open.pop(hour, None)
        if opened is None:
            while len(self._open) >= self._options.open_files:
                self._close(next(iter(self._open)))
            opened = self._create(hour, table.schema, offsets[0].as_py())
        self._open[hour] = opened
        opened.rows.write(table)
        opened.count += table.num_rows
        opened.until = offsets[table.num_rows - 1].as_py() + 1
        if self._options.format == "raw":
            opened.offsets.extend(runs(offsets.combine_chunks()))
        if opened.sink.size_bytes >= self._options.target_bytes:
            self._close(hour)

    def _create(self, hour: str, schema: pa.Schema, start: int) -> _OpenFile:
        directory = f"topic={self._source.topic}/{hour}"
        staged = f"{self._staging}/{self._token}+{self._source}+{self._made}"
        self._made += 1
        output = self._fs.create(join(self._output, staged))
        sink = HashingFile(output)
        return _OpenFile(directory, staged, output, sink, self._row_writer(sink, schema), start)

    def _row_writer(self, sink: HashingFile, schema: pa.Schema) -> RowWriter:
        if self._options.format == "parquet":
            return ParquetRows(sink, schema, self._options.compression)
        return JsonRows(sink) if self._options.format == "json" else RawRows(sink)

    def _close(self, hour: str) -> None:
        opened = self._open[hour]
        opened.rows.close()
        self._closed.append(opened.output)
        if len(self._closed) >= self._options.open_files:
            self._commit()
        del self._open[hour]
        name = file_name(
            self._source, opened.start, opened.until, self._token, FORMATS[self._options.format]
        )
        self.files.append(
            DataFile(
                path=f"{opened.directory}/{name}",
                staged=opened.staged,
                topic=self._source.topic,
                partition=self._source.partition,
                start=opened.start,
                until=opened.until,
                rows=opened.count,
                size_bytes=opened.sink.size_bytes,
                sha256=opened.sink.sha256,
                offsets=tuple(merge_runs(opened.offsets)),
            )
        )


class Quarantine:
    """Sets records aside verbatim, one JSON object per line, with offset and reason."""

    def __init__(
        self,
        filesystem: FileSystem,
        output: str,
        source: TopicPartition,
        staging: str,
        token: str,
        limit: int | None,
    ) -> None:
        self._fs = filesystem
        self._output = output
        self._source = source
        self._staging = staging
        self._token = token
        self._limit = limit
        self._lines: list[bytes] = []
        self._offsets: list[tuple[int, int]] = []
        self._last_reason = ""
        self.count = 0
        self.files: list[DataFile] = []

    def add(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> None:
        """Set rows aside, by index; raise QuarantineLimit when there are too many."""
        for index in sorted(reasons):
            row = _times_as_ms(batch.slice(index, 1)).to_pylist()[0]
            headers = [
                {"key": each["key"], "value": _base64(each["value"])}
                for each in row.get("headers") or ()
            ]
            content = {
                "topic": self._source.topic,
                "partition": self._source.partition,
                "offset": row["offset"],
                "timestamp": row["timestamp"],
                "timestampType": row["timestampType"],
                "key": _base64(row["key"]),
                "value": _base64(row["value"]),
                "headers": headers,
                "reason": reasons[index],
            }
            self._append(content, row["offset"], row["offset"] + 1)

    def add_damaged(self, entry: DamagedEntry) -> None:
        """Set an entry of the log aside that cannot be decoded."""
        content = {
            "topic": self._source.topic,
            "partition": self._source.partition,
            "offset": entry.start,
            "until": entry.until,
            "entry": _base64(entry.raw),
            "reason": entry.reason,
        }
        self._append(content, entry.start, entry.until)

    def _append(self, content: dict[str, Any], start: int, until: int) -> None:
        self._lines.append(json.dumps(content, ensure_ascii=False).encode() + b"\n")
        self._offsets.append((start, until))
        self._last_reason = content["reason"]
        self.count += 1
        if self._limit is not None and self.count > self._limit:
            raise QuarantineLimit(
                f"more than {self._limit} records of {self._source} could not be parsed; the last "
                f"one, at offset {start}: {self._last_reason}. Correct the event time options or "
                "allow more with --max-quarantined"
            )

    def finish(self) -> None:
        """Write the quarantine file, if there is anything to write."""
        if not self._lines:
            return
        start, until = self._offsets[0][0], self._offsets[-1][1]
        name = file_name(self._source, start, until, self._token, "jsonl")
        directory = f"{STATE}/quarantine/topic={self._source.topic}"
        staged = f"{self._staging}/{self._token}+{self._source}+quarantine"
        output = self._fs.create(join(self._output, staged))
        sink = HashingFile(output)
        sink.write(b"".join(self._lines))
        output.commit()
        self.files.append(
            DataFile(
                path=f"{directory}/{name}",
                staged=staged,
                topic=self._source.topic,
                partition=self._source.partition,
                start=start,
                until=until,
                rows=self.count,
                size_bytes=sink.size_bytes,
                sha256=sink.sha256,
                offsets=tuple(merge_runs(self._offsets)),
            )
        )
        self._lines.clear()

    def discard(self) -> None:
        """Drop what was not written yet."""
        self._lines.clear()


def file_name(source: TopicPartition, start: int, until: int, token: str, suffix: str) -> str:
    """Return the name of a data file: topic, partition, from, until, attempt."""
    return f"{source.topic}+{source.partition:05d}+{start:020d}+{until:020d}+{token}.{suffix}"


def merge_runs(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join `[start, until)` runs that touch, in order of offset."""
    merged: list[tuple[int, int]] = []
    for start, until in sorted(found):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], until)
        else:
            merged.append((start, until))
    return merged


def _stored(batch: pa.RecordBatch, times: pa.Array) -> pa.RecordBatch:
    """Return the columns of a data file: all but the topic, which the directory names."""
    names = [name for name in batch.schema.names if name != "topic"]
    arrays = [batch.column(name) for name in names]
    event_time = times.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([*arrays, event_time], names=[*names, "event_time"])


def _floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    quotient = pc.divide(numbers, divisor)
    inexact = pc.not_equal(pc.multiply(quotient, divisor), numbers)
    # Arrow's division cuts towards zero.
    step = pc.and_(pc.less(numbers, 0), inexact)
    return pc.subtract(quotient, step.cast(pa.int64()))


def _times_as_ms(rows: Any) -> Any:
    """Return rows with times as milliseconds since 1970, which JSON can hold."""
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            values = rows.column(index).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
            rows = rows.set_column(index, column.name, values)
    return rows


def _text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": _base64(value)}


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
