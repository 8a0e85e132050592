"""The first half of a pass: the keys of the dirty part go into the map.

Invariant: entries that are never kept as a latest value are not mapped: aborted data, markers,
records without a key. So no record is removed in favour of one that is itself dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkbroker.log.cleaner.offset_map import OffsetMap
from zkbroker.log.cleaner.reading import read_segment
from zkbroker.log.cleaner.transactions import PassTransactions, aborted_between
from zkbroker.log.cleaner.unpacking import inner_set, plain_batch
from zkbroker.log.segments.segment import Segment
from zkbroker.records import EntryInfo, PartialEntry, verify_entry
from zkbroker.records.entries import Data


@dataclass(frozen=True, slots=True)
class Mapper:
    """Maps the entries of segments from the offset `start` on, in the log's order."""

    map: OffsetMap
    start: int
    transactions: PassTransactions

    def take(self, block: Data) -> int:
        position = 0
        while not self.map.full:
            position = self.map.note(block, position, start=self.start, alone=False)
            if self.map.full:
                break
            try:
                entry = verify_entry(block, position)
            except PartialEntry:
                return position
            self._note(block, entry)
            position += entry.size
        return -1

    def _note(self, block: Data, entry: EntryInfo) -> None:
        start = self.start
        if entry.is_control:
            part = memoryview(block)[entry.position : entry.position + entry.size]
            self.transactions.end(entry, part)
            self.map.see(entry.last_offset)
        elif entry.is_transactional and self.transactions.is_aborted(entry):
            self.map.see(entry.last_offset)
        elif not entry.codec:
            self.map.note(block, entry.position, start=start, alone=True)
        elif entry.magic == 2:
            self.map.note(plain_batch(block, entry), 0, start=start, alone=True)
        else:
            inner, shift = inner_set(block, entry)
            self.map.note(inner, 0, start=start, shift=shift, alone=False)


def map_segments(
    offsets: OffsetMap,
    segments: Sequence[Segment],
    start: int,
    end: int,
    *,
    io_bytes: int,
    on_bytes: Callable[[int], None],
) -> None:
    """Map `[start, end)`, or as much of it as the map has room for.

    Args:
        offsets: an empty map.
        segments: all segments of the log.
        start: the first dirty offset.
        end: the base offset of a segment.
        io_bytes: how much to read at once.
        on_bytes: called with the size of each read, and with 0 between steps.

    Raises:
        CorruptMessage: an entry is damaged.
        OSError: the disk failed.
    """
    transactions = PassTransactions(aborted_between(segments, start, end))
    mapper = Mapper(offsets, start, transactions)
    following = [segment.base_offset for segment in segments[1:]]
    for segment, behind in zip(segments, following, strict=False):
        if behind > start and segment.base_offset < end:
            read_segment(segment, mapper.take, io_bytes=io_bytes, on_bytes=on_bytes)
            if offsets.full:
                return
    # The mapped part ends where a segment begins, even if the offsets just before hold no record.
    offsets.see(end - 1)
