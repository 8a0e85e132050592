"""Rebuilding of a segment's indexes from its entries.

Invariant: an index is a hint. One that is missing or wrong is made again; a damaged entry ends
that, and the reader of the damaged entry gets the error.
"""

import logging
from typing import TYPE_CHECKING

from zkbroker.errors import CorruptMessage
from zkbroker.log import names
from zkbroker.log.segments.entries import SMALLEST_ENTRY, walk
from zkbroker.log.segments.index import OffsetIndex, TimeIndex

if TYPE_CHECKING:
    from zkbroker.log.segments.segment import Segment

logger = logging.getLogger(__name__)


def has_timestamps(segment: "Segment", fd: int) -> bool:
    """Whether an entry of a segment has a timestamp."""
    try:
        return any(info.max_timestamp >= 0 for _, info in walk(fd, 0, segment.size))
    except CorruptMessage:
        return False


def rebuild_indexes(segment: "Segment", fd: int, reason: str) -> None:
    """Write both index files of a segment that is not written.

    Raises:
        OSError: the disk failed.
    """
    path = segment.path(names.INDEX)
    logger.warning("index rebuilt file=%s reason=%s", path, reason)
    # Twelve bytes for every interval are enough for either index.
    room = 12 * (segment.size // max(segment.index_interval_bytes, SMALLEST_ENTRY) + 2)
    segment.unlink((names.INDEX, names.TIMEINDEX))
    fs, base = segment.fs, segment.base_offset
    offsets = OffsetIndex(fs, path, base, max_bytes=room)
    try:
        times = TimeIndex(fs, segment.path(names.TIMEINDEX), base, max_bytes=room)
        try:
            fill_indexes(segment, fd, offsets, times)
            times.trim()
        finally:
            times.close()
        offsets.trim()
    finally:
        offsets.close()


def fill_indexes(segment: "Segment", fd: int, offsets: OffsetIndex, times: TimeIndex) -> None:
    """Index a segment by walking it; a damaged place ends the walk.

    Also notes the segment's largest timestamp.
    """
    unindexed = 0
    largest, at = -1, segment.base_offset
    try:
        for position, info in walk(fd, 0, segment.size):
            if info.max_timestamp > largest:
                largest, at = info.max_timestamp, info.last_offset
            if unindexed > segment.index_interval_bytes:
                offsets.append(info.last_offset, position)
                times.append(largest, at)
                unindexed = 0
            unindexed += info.size
    except CorruptMessage as error:
        logger.warning("log damaged file=%s reason=%s", segment.path(names.LOG), error)
    times.append(largest, at)
    segment.note_timestamps(largest, at)
