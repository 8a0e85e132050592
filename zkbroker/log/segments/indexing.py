"""Fills the indexes of a segment with its entries.

Invariant: an index is a hint. A missing or wrong index is rebuilt, up to the first damaged entry of
the log; the reader of that entry gets the error.
"""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from zkbroker.errors import CorruptMessage
from zkbroker.log.segments.entries import SMALLEST_ENTRY, walk
from zkbroker.log.segments.index import OffsetIndex, TimeIndex
from zkbroker.records import EntryInfo

if TYPE_CHECKING:
    from zkbroker.log.segments.segment import Segment

logger = logging.getLogger(__name__)


class Indexer:
    """Adds the entries of a segment, in their order, to its empty indexes."""

    def __init__(self, segment: "Segment", offsets: OffsetIndex, times: TimeIndex) -> None:
        self._segment = segment
        self._offsets = offsets
        self._times = times
        self._interval_bytes = segment.index_interval_bytes
        self._unindexed = 0
        self._largest, self._at = -1, segment.base_offset

    def add(self, position: int, info: EntryInfo) -> None:
        """Index an entry, if enough bytes of log lie between it and the last indexed one."""
        if info.max_timestamp > self._largest:
            self._largest, self._at = info.max_timestamp, info.last_offset
        if self._unindexed > self._interval_bytes:
            self._offsets.append(info.last_offset, position)
            self._times.append(self._largest, self._at)
            self._unindexed = 0
        self._unindexed += info.size

    def fill(self, fd: int) -> None:
        """Index the segment's log file by walking it; a damaged entry ends the walk."""
        segment = self._segment
        try:
            for position, info in walk(fd, 0, segment.size):
                self.add(position, info)
        except CorruptMessage as error:
            logger.warning("log damaged base_offset=%d reason=%s", segment.base_offset, error)
        self.note_largest()

    def note_largest(self) -> None:
        """Index the largest timestamp, and tell it to the segment."""
        self._times.append(self._largest, self._at)
        self._segment.note_timestamps(self._largest, self._at)

    def finish(self) -> None:
        """Complete the indexes of a closed segment.

        Raises:
            OSError: the disk failed.
        """
        self.note_largest()
        self._offsets.trim()
        self._times.trim()

    def sync(self) -> None:
        """Make both indexes stable.

        Raises:
            OSError: the disk failed.
        """
        self._offsets.sync()
        self._times.sync()


@contextmanager
def new_indexes(segment: "Segment", max_bytes: int | None = None) -> Iterator[Indexer]:
    """Replace both indexes of a closed segment by empty ones, to be filled and finished.

    Their pre-allocated size is `max_bytes`; without it, one that is enough for the log file.

    Raises:
        OSError: the disk failed.
    """
    if max_bytes is None:
        # Twelve bytes for each interval are enough for either index.
        max_bytes = 12 * (segment.size // max(segment.index_interval_bytes, SMALLEST_ENTRY) + 2)
    segment.unlink((OffsetIndex.suffix, TimeIndex.suffix))
    with (
        closing(segment.open_index(OffsetIndex, max_bytes)) as offsets,
        closing(segment.open_index(TimeIndex, max_bytes)) as times,
    ):
        yield Indexer(segment, offsets, times)


def has_timestamps(fd: int, size: int) -> bool:
    """Whether an entry of a log file has a timestamp."""
    try:
        return any(info.max_timestamp >= 0 for _, info in walk(fd, 0, size))
    except CorruptMessage:
        return False
