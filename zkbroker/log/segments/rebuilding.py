"""Rebuilds a segment's indexes from its entries.

Invariant: an index is a hint. A missing or wrong index is rebuilt, up to the first damaged entry of
the log; the reader of that entry gets the error.
"""

import logging
from pathlib import Path

from zkbroker.errors import CorruptMessage
from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.entries import SMALLEST_ENTRY, walk
from zkbroker.log.segments.index import OffsetIndex, TimeIndex

logger = logging.getLogger(__name__)


def has_timestamps(fd: int, size: int) -> bool:
    """Whether an entry of a log file has a timestamp."""
    try:
        return any(info.max_timestamp >= 0 for _, info in walk(fd, 0, size))
    except CorruptMessage:
        return False


def rebuild_indexes(
    fs: FileSystem, fd: int, size: int, base: int, offsets: Path, times: Path, interval_bytes: int
) -> tuple[int, int]:
    """Write both index files of a closed segment; see `fill_indexes`.

    Raises:
        OSError: the disk failed.
    """
    # Twelve bytes for each interval are enough for either index.
    room = 12 * (size // max(interval_bytes, SMALLEST_ENTRY) + 2)
    offset_index = OffsetIndex(fs, offsets, base, max_bytes=room)
    try:
        time_index = TimeIndex(fs, times, base, max_bytes=room)
        try:
            newest = fill_indexes(fd, size, base, offset_index, time_index, interval_bytes)
            time_index.trim()
        finally:
            time_index.close()
        offset_index.trim()
    finally:
        offset_index.close()
    return newest


def fill_indexes(
    fd: int, size: int, base: int, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int
) -> tuple[int, int]:
    """Index a log file by walking it; a damaged entry ends the walk.

    Returns:
        Its largest timestamp (ms, -1 for none), and an offset at which it was reached.
    """
    unindexed = 0
    largest, at = -1, base
    try:
        for position, info in walk(fd, 0, size):
            if info.max_timestamp > largest:
                largest, at = info.max_timestamp, info.last_offset
            if unindexed > interval_bytes:
                offsets.append(info.last_offset, position)
                times.append(largest, at)
                unindexed = 0
            unindexed += info.size
    except CorruptMessage as error:
        logger.warning("log damaged base_offset=%d reason=%s", base, error)
    times.append(largest, at)
    return largest, at
