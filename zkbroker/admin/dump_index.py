"""Dumps of the files beside a segment.

    .index       { relative offset:int32  position:int32 }*
    .timeindex   { timestamp:int64  relative offset:int32 }*
    .snapshot    version:int16  crc32c:uint32  count:int32  { producer id:int64  epoch:int16
                 last sequence:int32  last offset:int64  offset delta:int32  timestamp:int64
                 coordinator epoch:int32  first offset of the transaction:int64 }*
    .txnindex    { version:int16  producer id:int64  first, last, last stable offset:int64 }*

Invariant: the iterator yields the genuine tool's lines of standard output; its complaints go to
    `report`.
"""

import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import EntryInfo, crc32c, decode_entry, iter_entries

Report = Callable[[str], None]

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_SNAPSHOT_CRC_FROM: Final = 6
_TXN_ENTRY: Final = struct.Struct(">hqqqq")


def mapped(path: Path) -> memoryview:
    """Return the bytes of a file, which may be larger than memory."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def dump_index(
    path: Path, log: memoryview, *, verify_only: bool, sanity_only: bool, report: Report
) -> Iterator[str]:
    """Dump an offset index and compare it with its log.

    An entry is right if its offset lies between its position and the next entry's: 2.x writes the
    last offset of an append, which may hold many messages, 0.8 and 0.9 the first.
    """
    base = int(path.stem)
    raw = path.read_bytes()
    entries = _filled(_whole_entries(_INDEX_ENTRY, raw), 0)
    if not entries:
        yield f"{path} is empty."
        return
    if sanity_only:
        yield from _sanity(path, len(raw) % _INDEX_ENTRY.size, entries[-1][0] < 0, report)
        return
    mismatches: list[tuple[int, int]] = []
    for number, (relative, position) in enumerate(entries):
        offset = base + relative
        found = _entry_at(log, position)
        after = _entry_at(log, entries[number + 1][1]) if number + 1 < len(entries) else None
        if found is None:
            mismatches.append((offset, -1))
        elif offset < _first_offset(log, found) or (
            after is not None and offset >= after.last_offset
        ):
            mismatches.append((offset, found.last_offset))
        if not verify_only:
            yield f"offset: {offset} position: {position}"
    if mismatches:
        report(f"Mismatches in :{path.absolute()}")
        for indexed, offset in mismatches:
            report(f"  Index offset: {indexed}, log offset: {offset}")


def dump_time_index(
    path: Path, log: memoryview, *, verify_only: bool, sanity_only: bool, report: Report
) -> Iterator[str]:
    """Dump a time index and compare it with its log.

    An entry names an offset of the log entry that has its timestamp as the largest.
    """
    base = int(path.stem)
    raw = path.read_bytes()
    entries = _filled(_whole_entries(_TIME_ENTRY, raw), 1)
    if sanity_only:
        bad = bool(entries) and entries[-1][1] < 0
        yield from _sanity(path, len(raw) % _TIME_ENTRY.size, bad, report)
        return
    wrong: list[str] = []
    unordered: list[str] = []
    absent: list[str] = []
    previous = -1
    walk = _undamaged(log, report)
    current = next(walk, None)
    for timestamp, relative in entries:
        offset = base + relative
        while current is not None and current.last_offset < offset:
            current = next(walk, None)
        if current is None or offset < _first_offset(log, current):
            found = -1 if current is None else current.last_offset
            absent.append(f"Indexed offset: {offset}, found log offset: {found}")
        else:
            newest = _newest(log, current)
            if newest != timestamp:
                wrong.append(f"  Index timestamp: {timestamp}, log timestamp: {newest}")
            if previous >= timestamp:
                unordered.append(
                    f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
                )
        if not verify_only:
            yield f"timestamp: {timestamp} offset: {offset}"
        previous = timestamp
    for title, lines in (
        (f"Found timestamp mismatch in :{path.absolute()}", wrong),
        (f"Found out of order timestamp in :{path.absolute()}", unordered),
        ("The following indexed offsets are not found in the log.", absent),
    ):
        if lines:
            report(title)
            for line in lines:
                report(line)


def dump_snapshot(path: Path, report: Report) -> Iterator[str]:
    """Dump the producers of a snapshot."""
    raw = path.read_bytes()
    if len(raw) < _SNAPSHOT_HEAD.size:
        report(f"Snapshot failed schema validation: {len(raw)} bytes")
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(raw)
    if version != 1:
        report(f"Snapshot contained an unknown file version {version}")
        return
    computed = crc32c(raw[_SNAPSHOT_CRC_FROM:])
    if crc != computed:
        report(f"Snapshot is corrupt (CRC is no longer valid). Stored {crc}, computed {computed}")
        return
    if len(raw) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        report(f"Snapshot failed schema validation: {count} producers in {len(raw)} bytes")
        return
    for (
        producer_id,
        epoch,
        sequence,
        offset,
        delta,
        timestamp,
        coordinator,
        first,
    ) in _SNAPSHOT_ENTRY.iter_unpack(raw[_SNAPSHOT_HEAD.size :]):
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator} "
            f"currentTxnFirstOffset: {'None' if first < 0 else f'Some({first})'} "
        )
        if offset >= 0:
            line += (
                f"firstSequence: {_back(sequence, delta)} lastSequence: {sequence} "
                f"lastOffset: {offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        yield line


def dump_transaction_index(path: Path) -> Iterator[str]:
    """Dump an index of aborted transactions."""
    for version, producer_id, first, last, stable in _whole_entries(_TXN_ENTRY, path.read_bytes()):
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} "
            f"lastOffset: {last} lastStableOffset: {stable}"
        )


def _whole_entries(layout: struct.Struct, raw: bytes) -> list[tuple[Any, ...]]:
    return list(layout.iter_unpack(raw[: len(raw) - len(raw) % layout.size]))


def _filled(entries: list[tuple[int, int]], offset_at: int) -> list[tuple[int, int]]:
    """Leave out the zeros of a pre-allocated file: only a first entry has relative offset 0."""
    for number, entry in enumerate(entries):
        if number and entry[offset_at] == 0:
            return entries[:number]
    return entries


def _back(sequence: int, delta: int) -> int:
    """Sequence numbers wrap from 2**31 - 1 to 0."""
    return (sequence - delta) % 2**31


def _sanity(path: Path, rest: int, below: bool, report: Report) -> Iterator[str]:
    if rest:
        report(f"{path} is corrupt: {rest} bytes after the last whole entry")
    elif below:
        report(f"{path} is corrupt: its last offset is below its base offset")
    else:
        yield f"{path} passed sanity check."


def _entry_at(log: memoryview, position: int) -> EntryInfo | None:
    if not 0 <= position < len(log):
        return None
    try:
        return next(iter_entries(log, position=position), None)
    except CorruptMessage:
        return None


def _undamaged(log: memoryview, report: Report) -> Iterator[EntryInfo]:
    """Yield the entries of a log up to the damage, if any, which is reported."""
    try:
        yield from iter_entries(log)
    except CorruptMessage as error:
        report(str(error))


def _newest(log: memoryview, entry: EntryInfo) -> int:
    """Return the largest timestamp in an entry; that of its head if no record can be read.

    Compaction keeps a batch without records, for its producer's sequence number.
    """
    try:
        records = decode_entry(log, entry)
    except (CorruptMessage, MessageSizeTooLarge):
        records = []
    return max((record.timestamp for record in records), default=entry.max_timestamp)


def _first_offset(log: memoryview, entry: EntryInfo) -> int:
    if entry.record_count >= 0:
        return entry.base_offset
    try:
        return decode_entry(log, entry)[0].offset
    except (CorruptMessage, MessageSizeTooLarge):
        return entry.base_offset
