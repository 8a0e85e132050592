"""Compaction: the map from keys to their last offsets, and the entries filtered by it.

    slot of the map     digest:16 (MD5 of the key)  last offset + 1:int64 (machine's order; 0: free)

Invariant: a key is in the slot named by the first 8 bytes of its digest, or in a later one with no
free slot between. Only plain entries are processed: uncompressed, no control batch, and no batch of
a transaction except with `alone`. The walk ends before any other entry.
"""

import hashlib
import struct
import sys

from zkbroker.errors import CorruptMessage
from zkbroker.records.entries import Data, check_crc, read_head, seal_batch
from zkbroker.records.layout import (
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    ENTRY_HEADER_BYTES,
    INT32,
    MAX_OFFSET,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    OFFSET,
    SIZE_AT,
    SLOT_BYTES,
)
from zkbroker.records.portable.batch import decode_payload
from zkbroker.records.portable.messages import decode_message
from zkbroker.records.record import EntryInfo, PartialEntry, Record
from zkbroker.records.varint import decode_varint, encode_varint

_STORED = struct.Struct("=q")


def _find_slot(table: Data, key: bytes) -> tuple[int, int, bytes]:
    """Return where the slot of a key begins (-1: no room), its content, and the digest."""
    digest = hashlib.md5(key, usedforsecurity=False).digest()
    slots = len(table) // SLOT_BYTES
    if not slots:
        return -1, 0, digest
    first = int.from_bytes(digest[:8], "big") % slots
    for step in range(slots):
        at = (first + step) % slots * SLOT_BYTES
        (stored,) = _STORED.unpack_from(table, at + 16)
        if stored == 0 or table[at : at + 16] == digest:
            return at, stored, digest
    return -1, 0, digest


def _plain_entry(data: Data, position: int, shift: int, alone: bool) -> EntryInfo | None:
    try:
        entry = read_head(data, position, sent=True)
    except (PartialEntry, CorruptMessage):
        return None
    base = OFFSET.unpack_from(data, position)[0] + shift
    if not 0 <= base <= MAX_OFFSET or entry.codec or entry.is_control:
        return None
    if entry.is_transactional and not alone:
        return None
    if entry.magic == 2 and not -MAX_TIMESTAMP <= entry.base_timestamp <= MAX_TIMESTAMP:
        return None
    entry = entry._replace(
        base_offset=base, last_offset=base + entry.last_offset - entry.base_offset
    )
    check_crc(memoryview(data), entry)
    return entry


def _records(data: Data, entry: EntryInfo) -> list[Record]:
    if entry.magic < 2:
        return [decode_message(data, entry)]
    start = entry.position + BATCH_HEADER_BYTES
    return decode_payload(bytes(data[start : entry.position + entry.size]), entry)


def map_keys(
    table: bytearray | memoryview,
    used: int,
    limit: int,
    data: Data,
    position: int,
    shift: int,
    start: int,
    alone: bool,
) -> tuple[int, int, int, bool]:
    """Add the keys of plain entries with their offsets.

    Args:
        table: slots; changed.
        used: how many of them are used.
        limit: how many may be used.
        data: entries.
        position: of the first one, in bytes.
        shift: added to the offsets found (messages inside a wrapper of magic 1).
        start: records below this offset are skipped.
        alone: process only one entry, which may be part of a transaction.

    Returns:
        Position of the first entry that was not processed; used slots; the offset after the last
        record seen from `start` on (-1: none); whether there was no slot for a key.

    Raises:
        CorruptMessage: an entry is damaged.
    """
    following = -1
    while (entry := _plain_entry(data, position, shift, alone)) is not None:
        for record in _records(data, entry):
            if record.offset < start:
                continue
            if record.key is not None:
                at, stored, digest = _find_slot(table, record.key)
                if at < 0 or (stored == 0 and used >= limit):
                    return position, used, following, True
                used += stored == 0
                table[at : at + 16] = digest
                last = max(stored, record.offset + 1)
                table[at + 16 : at + 24] = last.to_bytes(8, sys.byteorder)
            following = max(following, record.offset + 1)
        if entry.last_offset >= start:
            following = max(following, entry.last_offset + 1)
        position += entry.size
        if alone:
            break
    return position, used, following, False


def filter_entries(
    table: Data,
    data: Data,
    position: int,
    shift: int,
    end: int,
    keep_deletes: bool,
    alone: bool,
) -> tuple[bytes, int, int, int, int, bool]:
    """Remove from plain entries the records that have a later record of their key in the map.

    Records without a key are removed as well, and those without a value unless `keep_deletes`. A
    batch that is kept in part is rebuilt with its offsets and its producer.

    Args:
        table: slots of the map.
        data: entries.
        position: of the first one, in bytes.
        shift: added to the offsets found (messages inside a wrapper of magic 1).
        end: all records from this offset on stay.
        keep_deletes: records without a value stay.
        alone: process only one entry, which may be part of a transaction.

    Returns:
        The remaining entries; the position of the first one that was not processed; how many
        records were seen and kept; the largest timestamp of the kept ones, -1 for none; whether the
        entry that was not processed is a producer's batch of which no record is kept.

    Raises:
        CorruptMessage: an entry is damaged.
    """
    out = bytearray()
    seen = kept = 0
    newest = -1
    emptied = False
    while (entry := _plain_entry(data, position, shift, alone)) is not None:
        records = _records(data, entry)
        stay = [_stays(table, record, end, keep_deletes) for record in records]
        if entry.magic == 2 and not any(stay) and entry.producer_id >= 0:
            emptied = True
            seen += len(records)
            break
        seen += len(records)
        kept += sum(stay)
        times = (each.timestamp for each, staying in zip(records, stay, strict=True) if staying)
        newest = max(newest, *times, -1)
        if records and all(stay):
            out += data[position : position + entry.size]
        elif any(stay):
            out += _rebuilt(data, entry, records, stay)
        position += entry.size
        if alone:
            break
    return bytes(out), position, seen, kept, newest, emptied


def _stays(table: Data, record: Record, end: int, keep_deletes: bool) -> bool:
    if record.offset >= end:
        return True
    if record.key is None or (record.value is None and not keep_deletes):
        return False
    at, stored, _ = _find_slot(table, record.key)
    return at < 0 or stored - 1 <= record.offset


def _rebuilt(data: Data, entry: EntryInfo, records: list[Record], stay: list[bool]) -> bytearray:
    position = entry.position + BATCH_HEADER_BYTES
    out = bytearray(data[entry.position : position])
    raw = bytes(data[: entry.position + entry.size])
    kept = [record.timestamp for record, staying in zip(records, stay, strict=True) if staying]
    for record, staying in zip(records, stay, strict=True):
        length, begin = decode_varint(raw, position, len(raw))
        position = begin + length
        if not staying:
            continue
        _, rest = decode_varint(raw, begin + 1, position)
        delta = encode_varint(record.timestamp - kept[0])
        out += encode_varint(1 + len(delta) + position - rest)
        out += raw[begin : begin + 1] + delta + raw[rest:position]
    newest = entry.max_timestamp if entry.timestamp_type == 1 else max(-1, *kept)
    INT32.pack_into(out, SIZE_AT, len(out) - ENTRY_HEADER_BYTES)
    OFFSET.pack_into(out, BASE_TIMESTAMP_AT, kept[0])
    OFFSET.pack_into(out, MAX_TIMESTAMP_AT, newest)
    INT32.pack_into(out, COUNT_AT, len(kept))
    seal_batch(out)
    return out
