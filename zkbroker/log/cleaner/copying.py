"""The second half of a pass: segments are copied batch by batch, without replaced records.

    all records stay        the batch is copied unchanged
    some stay               it is rebuilt: same format, codec, offsets, producer and sequence
    none stays              it is dropped; the last batch of a remembered producer stays, empty

Invariant: the last sequence and epoch of every producer can still be read from the log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zkbroker.errors import CorruptMessage
from zkbroker.log.cleaner.offset_map import Filtered, OffsetMap
from zkbroker.log.cleaner.reading import read_segment
from zkbroker.log.cleaner.transactions import PassTransactions
from zkbroker.log.cleaner.unpacking import (
    empty_batch,
    has_other_magic,
    inner_set,
    packed_batch,
    plain_batch,
    wrapped,
)
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.records import Codec, EntryInfo, PartialEntry, verify_entry
from zkbroker.records.entries import Data

LastRecords = Mapping[int, tuple[int, int | None]]
"""Producer id to its epoch and the offset of its last data, None if it has none."""


class Target(Protocol):
    """Receives the entries: a `SegmentWriter`, or an object that only counts."""

    def append(self, data: bytes | bytearray | memoryview) -> None: ...
    def add_aborted(self, transaction: AbortedTransaction) -> None: ...


@dataclass(slots=True)
class CopyCounts:
    """Counts of a pass: records read, and records kept."""

    records_seen: int = 0
    records_kept: int = 0


@dataclass(slots=True, kw_only=True)
class Copier:
    """Copies the entries of segments, in the log's order.

    Args:
        map: the offsets of keys.
        end: entries from this offset on were not mapped.
        horizon_ms: segments last written after this keep records without a value, and markers.
        transactions: of the pass.
        producers: the remembered ones.
        counts: the pass is added to these.
        io_bytes: how much to read or write at once.
        on_bytes: called with the size of each read and write, and with 0 between steps.
    """

    map: OffsetMap
    end: int
    horizon_ms: int
    transactions: PassTransactions
    producers: LastRecords
    counts: CopyCounts
    io_bytes: int
    on_bytes: Callable[[int], None]
    _target: Target = field(init=False)
    _keep_deletes: bool = field(init=False)
    _out: bytearray = field(init=False, default_factory=bytearray)

    def copy(self, segments: Sequence[Segment], target: Target) -> None:
        """Copy neighbouring segments, ascending, into one.

        Raises:
            CorruptMessage: an entry is damaged.
            OSError: the disk failed.
        """
        self._target = target
        for segment in segments:
            self._keep_deletes = segment.modified_ms() > self.horizon_ms
            read_segment(segment, self.take, io_bytes=self.io_bytes, on_bytes=self.on_bytes)
        self._write()

    def take(self, block: Data) -> int:
        position = 0
        while True:
            found = self._filter(block, position, alone=False)
            self._put(found.data)
            self._count(found)
            position = found.position
            try:
                entry = verify_entry(block, position)
            except PartialEntry:
                return position
            self._put(self._emptied(entry) if found.emptied else self._judge(block, entry))
            position += entry.size

    # One entry that is not plain, or of which no record stays

    def _judge(self, block: Data, entry: EntryInfo) -> bytes | bytearray | memoryview:
        part = memoryview(block)[entry.position : entry.position + entry.size]
        if entry.is_control:
            needed, aborted = self.transactions.end(entry, part)
            if aborted is not None:
                self._target.add_aborted(aborted)
            if needed or (self._keep_deletes and entry.record_count):
                return part
            return self._emptied(entry)
        if entry.is_transactional and self.transactions.is_aborted(entry):
            self.counts.records_seen += entry.record_count
            return self._emptied(entry)
        own = entry._replace(position=0)
        return self._batch(part, own) if entry.magic == 2 else self._wrapper(part, own)

    def _batch(self, part: memoryview, entry: EntryInfo) -> bytes | bytearray | memoryview:
        found = self._filter(plain_batch(part, entry) if entry.codec else part, 0, alone=True)
        self._count(found)
        if found.kept == 0:
            return self._emptied(entry) if found.emptied else b""
        if not entry.codec:
            return found.data
        if found.kept == found.seen:
            return part
        return packed_batch(found.data, Codec(entry.codec))

    def _wrapper(self, part: memoryview, entry: EntryInfo) -> bytes | memoryview:
        inner, shift = inner_set(part, entry)
        found = self._filter(inner, 0, alone=False, shift=shift)
        if found.position != len(inner):
            raise CorruptMessage(f"malformed message inside the one at offset {entry.last_offset}")
        self._count(found)
        if found.kept == 0:
            return b""
        if found.kept == found.seen and not has_other_magic(inner, entry.magic):
            return part
        return wrapped(found.data, entry, shift)

    def _emptied(self, entry: EntryInfo) -> bytes | bytearray:
        known = self.producers.get(entry.producer_id)
        if known is None:
            return b""
        epoch, last_data = known
        last = (
            entry.is_control and entry.producer_epoch == epoch
            if last_data is None
            else entry.last_offset == last_data
        )
        return empty_batch(entry) if last else b""

    def _filter(self, data: Data, at: int, *, alone: bool, shift: int = 0) -> Filtered:
        return self.map.filter(
            data, at, end=self.end, keep_deletes=self._keep_deletes, shift=shift, alone=alone
        )

    def _count(self, found: Filtered) -> None:
        self.counts.records_kept += found.kept
        self.counts.records_seen += found.seen

    # Output

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        self._out += data
        if len(self._out) >= self.io_bytes:
            self._write()

    def _write(self) -> None:
        if self._out:
            self.on_bytes(len(self._out))
            self._target.append(self._out)
            self._out = bytearray()
