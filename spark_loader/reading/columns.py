"""Decoded columns → Arrow: record batches in the schema of Spark's own Kafka source.

Invariant: a batch shares the decoder's buffers without a copy; only times are converted.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import joined, minus, runs
from zkbroker.records import Columns
from zkbroker.types import Partition07

_LAST_MS = (2**63 - 1) // 1000
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


POSITION = "position"
"""Column of a load from Kafka 0.7: where the log entry of a row begins."""


def place_column(source: TopicPartition) -> str:
    """Return the column that says where in its log a row of a partition begins."""
    return POSITION if isinstance(source.partition, Partition07) else "offset"


def arrow_schema(*, headers: bool, positions: bool = False) -> pa.Schema:
    """Return the schema of the batches: that of Spark's own Kafka source, in Arrow's types.

    Args:
        headers: whether there is a column of headers.
        positions: whether there is one of positions, for Kafka 0.7.
    """
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", _HEADERS))
    if positions:
        fields.append(pa.field(POSITION, pa.int64()))
    return pa.schema(fields)


def record_batch(
    source: TopicPartition, columns: Columns, offsets: pa.Array, schema: pa.Schema
) -> pa.RecordBatch:
    """Return a record batch.

    Args:
        source: the partition that the records are from.
        columns: the decoded records.
        offsets: those of `columns`, as an array.
        schema: as `arrow_schema` makes it, without positions.
    """
    count = columns.count
    timestamps = fixed_array(pa.timestamp("ms", tz="UTC"), count, columns.timestamps)
    arrays = [
        _binary(count, columns.key_validity, columns.key_offsets, columns.key_data),
        _binary(count, columns.value_validity, columns.value_offsets, columns.value_data),
        pa.repeat(source.topic, count),
        pa.repeat(pa.scalar(source.partition, pa.int32()), count),
        offsets,
        in_microseconds(timestamps),
        fixed_array(pa.int32(), count, columns.timestamp_types),
    ]
    if "headers" in schema.names:
        rows = [
            [{"key": key, "value": value} for key, value in record] if record else None
            for record in columns.headers or ()
        ]
        arrays.append(pa.array(rows, type=_HEADERS))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_microseconds(timestamps: pa.Array) -> pa.Array:
    """Return times in ms as times in µs; times out of range become the nearest in range.

    Producers that put other units into the field make such times; their records must stay readable.
    """
    kind = pa.timestamp("us", tz="UTC")
    try:
        return timestamps.cast(kind)
    except pa.ArrowInvalid:
        whole = pc.min_element_wise(timestamps.cast(pa.int64()), pa.scalar(_LAST_MS))
        whole = pc.max_element_wise(whole, pa.scalar(-_LAST_MS))
        return pc.multiply(whole, 1000).cast(kind)


def ascending(offsets: pa.Array) -> bool:
    """Return whether each offset is above the one before."""
    count = len(offsets)
    if count < 2:
        return True
    return bool(pc.all(pc.greater(offsets.slice(1), offsets.slice(0, count - 1))).as_py())


def missing(offsets: pa.Array, start: int, until: int) -> list[tuple[int, int]]:
    """Return the runs of `[start, until)` that ascending `offsets` leave out."""
    if until - start == len(offsets):
        return []
    return minus([(start, until)], joined(runs(offsets)))


def fixed_array(kind: pa.DataType, count: int, data: Any) -> pa.Array:
    """Return a buffer of `count` values of a fixed width as an array without nulls."""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _binary(count: int, validity: Any, offsets: Any, data: Any) -> pa.Array:
    bitmap = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(
        pa.binary(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
