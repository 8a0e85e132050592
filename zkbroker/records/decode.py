"""Decodes records from any mix of magics, as fetches return them.

The same walk has four forms: `iter_records` yields one record at a time, `decode_rows` returns a
tuple of the caller's class for each, `decode_lists` a Python list for each column, `decode_columns`
buffers in Arrow's layout.

Invariant: the results are whole, verified records in log order. A partial entry at the end of a
fetch is silently dropped; control batches are never returned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data
from zkbroker.records.portable.walk import NO_END, Buffer, Row
from zkbroker.records.record import Headers, Record

# How many records `iter_records` decodes ahead.
_READ_AHEAD_RECORDS: Final = 1024


def iter_records(
    data: Data,
    *,
    verify_crc: bool = True,
    start_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Yield the records of a fetched or stored message set.

    Args:
        data: entries of any magic, one after the other.
        verify_crc: check every checksum, outer and inner.
        start_offset: records below it are left out (a batch may begin before the fetched offset).
        max_decompressed_bytes: the largest size that one entry may expand to.

    Raises:
        CorruptMessage: a wrong checksum or malformed bytes; earlier records were yielded.
        MessageSizeTooLarge: an entry expands beyond the limit.
    """
    raw = data if isinstance(data, bytes) else bytes(data)
    position = 0
    while True:
        records, reached, _, error = kernels.decode_records(
            raw,
            position,
            start_offset,
            NO_END,
            verify_crc,
            max_decompressed_bytes,
            _READ_AHEAD_RECORDS,
        )
        yield from records
        if error is not None:
            raise error
        if reached == position:
            return
        position = reached


def offset_after(data: Data) -> int | None:
    """Return the offset after the last whole entry, None if not even the first is whole.

    Only heads are read, without CRCs; an impossible head ends the walk like a partial entry.

    Raises:
        CorruptMessage: the head of the first entry is impossible.
    """
    position, next_offset, error = kernels.end_of_entries(data)
    if position == 0 and error is not None:
        raise error
    return next_offset if position else None


def decode_rows(
    row_type: type[Row],
    topic: str,
    partition: int,
    data: Data,
    *,
    start_offset: int = 0,
) -> tuple[list[Row], CorruptMessage | MessageSizeTooLarge | None]:
    """Decode a fetched message set into rows; raises nothing.

    Args:
        row_type: a NamedTuple of topic, partition, offset, key, value, timestamp, its type, and
            headers.
        topic: for each row.
        partition: for each row.
        data: see `iter_records`.
        start_offset: see `iter_records`.

    Returns:
        The rows, and the error that stopped the walk, if any.
    """
    rows, _, error = kernels.decode_rows(
        data, start_offset, NO_END, True, MAX_DECOMPRESSED_BYTES, row_type, topic, partition
    )
    return rows, error


@dataclass(slots=True)
class RecordLists:
    """Decoded records, a list for each column.

    `headers` is None if no record has any. `next_offset` is the offset after the last whole entry,
    even if that is a control batch. `error` is the error that stopped the walk; all records before
    it are in the lists.
    """

    count: int
    offsets: list[int]
    timestamps: list[int]
    timestamp_types: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    next_offset: int
    error: CorruptMessage | MessageSizeTooLarge | None


def decode_lists(
    data: Data,
    *,
    start_offset: int = 0,
    verify_crc: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> RecordLists:
    """Decode a fetched message set into lists; raises nothing. Arguments: see `iter_records`."""
    found = kernels.decode_lists(data, start_offset, NO_END, verify_crc, max_decompressed_bytes)
    return RecordLists(len(found[0]), *found)


@dataclass(slots=True)
class Columns:
    """Decoded records as buffers that Arrow uses without a copy.

    Offsets and timestamps are int64, timestamp types int32 (-1 none, 0 create, 1 append), all in
    the machine's byte order; the offsets of keys and values are int32, one more than there are
    records, the first 0; a validity is a bitmap, lowest bit first, or None if nothing is null.
    `next_offset` is the offset after the last whole entry that was processed, even if that is a
    control batch or outside the range.
    """

    count: int
    offsets: Buffer
    timestamps: Buffer
    timestamp_types: Buffer
    key_offsets: Buffer
    key_data: Buffer
    key_validity: Buffer | None
    value_offsets: Buffer
    value_data: Buffer
    value_validity: Buffer | None
    headers: list[Headers] | None
    next_offset: int


def decode_columns(
    data: Data,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    verify_crc: bool = True,
    headers: bool = False,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Decode a fetched message set into columns.

    Args:
        data: entries of any magic; a partial one at the end is dropped.
        start_offset: records below it are left out.
        end_offset: records from it on are left out; None for no end.
        verify_crc: check every checksum, outer and inner.
        headers: return the headers as well.
        max_decompressed_bytes: the largest size that one entry may expand to.

    Raises:
        CorruptMessage: with the `position` and `base_offset` of the bad entry.
        MessageSizeTooLarge: an entry expands beyond the limit.
    """
    end = NO_END if end_offset is None else end_offset
    count, offsets, timestamps, types, keys, values, found_headers, next_offset, error = (
        kernels.decode_columns(data, start_offset, end, verify_crc, headers, max_decompressed_bytes)
    )
    if error is not None:
        raise error
    return Columns(count, offsets, timestamps, types, *keys, *values, found_headers, next_offset)
