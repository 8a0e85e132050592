"""Walking the entries of a segment file by their headers.

    0       8      12     16    17         23                35             43
    offset  size   crc or magic attributes last_offset_delta max_timestamp  ...   (magic 2)
    int64   int32  epoch  int8             int32             int64

The offset of a magic-0 or magic-1 entry is its last (and, uncompressed, its only) offset; a
magic-2 batch ends at `offset + last_offset_delta`.

Invariant: no position is trusted: an impossible header raises `CorruptMessage`.
"""

import os
from collections.abc import Iterator
from struct import Struct

from zkbroker.codecs import FETCH_SINCE
from zkbroker.errors import CorruptMessage
from zkbroker.records import EntryInfo, iter_entries, iter_records
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    ENTRY_HEADER_BYTES,
    INT32,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MIN_SIZE_V0,
    MIN_SIZE_V1,
    MIN_SIZE_V2,
    OFFSET,
    TIMESTAMP_V1_AT,
)

_HEADER = Struct(">qiiB")
_NEEDED = LAST_OFFSET_DELTA_AT + INT32.size
_LEAST_SIZE = (MIN_SIZE_V0, MIN_SIZE_V1, MIN_SIZE_V2)
_PAGE = 4096
_CHUNK = 1 << 20
SMALLEST_ENTRY = ENTRY_HEADER_BYTES + min(_LEAST_SIZE)


def find_entry(
    fd: int, position: int, end: int, offset: int, *, at_most: int | None = None
) -> tuple[int, int] | None:
    """Find the first entry that ends at or after an offset.

    Args:
        fd: descriptor of the segment's file.
        position: the start of an entry, in bytes.
        end: end of the entries, in bytes.
        offset: the wanted offset.
        at_most: the largest offset allowed in the header at `position`.

    Returns:
        (position, size), both in bytes; None if no entry reaches the offset.

    Raises:
        CorruptMessage: there is no entry where one must be, or the first is not the expected one.
    """
    unpack = _HEADER.unpack_from
    # A page covers the entries between two of a sparse index, or the head of one large entry;
    # larger reads only pay off for many small entries.
    look = _PAGE
    while end - position >= SMALLEST_ENTRY:
        block = os.pread(fd, min(look, end - position), position)
        at = 0
        while at + SMALLEST_ENTRY <= len(block):
            found, size, _, magic = unpack(block, at)
            if (
                magic > 2
                or size < _LEAST_SIZE[magic]
                or position + at + ENTRY_HEADER_BYTES + size > end
            ):
                raise CorruptMessage(f"no entry at position {position + at}")
            if at_most is not None:
                if found > at_most:
                    raise CorruptMessage(f"another entry at position {position + at}")
                at_most = None
            last = found
            if magic == 2:
                if at + _NEEDED > len(block):
                    break
                last += INT32.unpack_from(block, at + LAST_OFFSET_DELTA_AT)[0]
            if last >= offset:
                return position + at, ENTRY_HEADER_BYTES + size
            at += ENTRY_HEADER_BYTES + size
        if at == 0:
            raise CorruptMessage(f"the file ends at {position + len(block)}, not at {end}")
        position += at
        look = min(look * 2, _CHUNK) if at <= len(block) else _PAGE
    return None


def walk(fd: int, position: int, end: int) -> Iterator[tuple[int, EntryInfo]]:
    """Yield (position in the file, entry) for every whole entry in a range of a file.

    Raises:
        CorruptMessage: there is no entry where one must be.
    """
    look = _CHUNK
    while end - position >= SMALLEST_ENTRY:
        block = os.pread(fd, min(look, end - position), position)
        used = 0
        for info in iter_entries(block):
            yield position + info.position, info
            used = info.position + info.size
        if used == 0:
            if len(block) < min(look, end - position) or len(block) == end - position:
                return
            look *= 4
            continue
        look = _CHUNK
        position += used


def traits(fd: int, position: int, end: int) -> tuple[int, int, int]:
    """Walk the entries that begin in a range of a file.

    Returns:
        (largest magic, -1 for none; version of Fetch that may carry their codecs; position
        after the last entry, which may be past `end`).

    Raises:
        CorruptMessage: there is no entry where one must be.
    """
    unpack = _HEADER.unpack_from
    magic_seen, fetch_since = -1, 0
    while end - position >= SMALLEST_ENTRY:
        block = os.pread(fd, min(_CHUNK, end - position), position)
        if len(block) < SMALLEST_ENTRY:
            break
        at = 0
        while at + SMALLEST_ENTRY <= len(block):
            _, size, _, magic = unpack(block, at)
            if magic > 2 or size < _LEAST_SIZE[magic]:
                raise CorruptMessage(f"no entry at position {position + at}")
            if magic > magic_seen:
                magic_seen = magic
            if magic == 2:
                since = FETCH_SINCE[block[at + ATTRIBUTES_V2_LOW_AT] & CODEC_MASK]
                fetch_since = max(fetch_since, since)
            at += ENTRY_HEADER_BYTES + size
        position += at
    return magic_seen, fetch_since, position


def first_timestamp(fd: int) -> int:
    """Return the timestamp (ms) of the first message of a file, -1 if there is none."""
    head = os.pread(fd, BASE_TIMESTAMP_AT + OFFSET.size, 0)
    magic = head[MAGIC_AT] if len(head) > MAGIC_AT else 0
    at = {1: TIMESTAMP_V1_AT, 2: BASE_TIMESTAMP_AT}.get(magic)
    if at is None or len(head) < at + OFFSET.size:
        return -1
    timestamp: int = OFFSET.unpack_from(head, at)[0]
    return timestamp


def first_offset(entry: bytes) -> int:
    """Return the offset of the first message of a whole entry.

    Raises:
        CorruptMessage: it is not an entry.
    """
    info = next(iter_entries(entry))
    if info.record_count >= 0:
        return info.base_offset
    return next((record.offset for record in iter_records(entry)), info.base_offset)
