"""The aborted transactions of a segment: those whose ABORT marker is in it.

    transaction index `%020d.txnindex`
    { version:int16 = 0  producer_id:int64  first_offset:int64  last_offset:int64
      last_stable_offset:int64 }*

An aborted transaction spans from its first batch to its ABORT marker, a control batch. If the last
stable offset of an entry is at or past the end of a read, no later entry matters to it.

Invariant: an index agrees with the batches of its segment; a missing index means that no marker in
them aborted a transaction, as in genuine brokers, which create the file with its first entry.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from zkbroker.errors import CorruptMessage

_VERSION: Final = 0
_ENTRY = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_index(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of an index file, or of a part of it."""
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in transactions)


def read_index(path: Path, base_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Read the index file of a segment with the offsets `[base_offset, end_offset)`.

    Raises:
        CorruptMessage: it cannot be that segment's index.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if len(data) % _ENTRY.size:
        raise CorruptMessage(f"{len(data) % _ENTRY.size} bytes after the last whole entry")
    found = []
    least = base_offset
    for version, *values in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*values)
        if version != _VERSION:
            raise CorruptMessage(f"an entry of version {version}")
        if not least <= entry.last_offset < end_offset or entry.first_offset > entry.last_offset:
            raise CorruptMessage(f"a transaction with offsets {entry[1]} to {entry[2]}")
        least = entry.last_offset + 1
        found.append(entry)
    return found


def select(
    indexes: Iterable[Sequence[AbortedTransaction]], start: int, end: int
) -> Iterator[AbortedTransaction]:
    """Yield the aborted transactions that overlap a range of offsets.

    Args:
        indexes: of the segments, from the one that holds `start` on.
        start: first offset of the range.
        end: the offset after it.
    """
    for index in indexes:
        # An index may grow meanwhile; its entries ascend by their last offset.
        length = len(index)
        first = bisect_left(index, start, hi=length, key=_last_offset)
        for at in range(first, length):
            each = index[at]
            if each.first_offset < end:
                yield each
            if each.last_stable_offset >= end:
                return
