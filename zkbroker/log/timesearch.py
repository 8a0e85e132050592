"""Offsets by time.

Invariant: `offset_for_timestamp` finds the first message, in offset order, whose timestamp is at
least the one asked for, whether or not timestamps grow. Messages of magic 0 have none and are never
found. `segment_offsets_before` is the older, coarser question: it looks at the times of files.
"""

import os
from typing import Final, NamedTuple

from zkbroker.errors import UnsupportedForMessageFormat
from zkbroker.log import names
from zkbroker.log.entries import walk
from zkbroker.log.segment import Segment
from zkbroker.log.segment_files import SegmentFiles
from zkbroker.log.view import LogView
from zkbroker.records import iter_records

LATEST: Final = -1
EARLIEST: Final = -2


class TimestampOffset(NamedTuple):
    """A message found by time: its offset and its timestamp in ms."""

    offset: int
    timestamp: int


def offset_for_timestamp(log: LogView, timestamp: int) -> TimestampOffset | None:
    """Find the first message at or after a time.

    Args:
        log: where to look, from its start offset on.
        timestamp: ms since 1970.

    Raises:
        UnsupportedForMessageFormat: the topic is pinned to magic 0.
        OSError: the disk failed.
    """
    if log.config.pinned_magic == 0:
        raise UnsupportedForMessageFormat(f"{log.topic_partition} keeps no timestamps")
    start = log.log_start_offset
    for segment in log.segments:
        with log.opened(segment) as files:
            if segment.largest_timestamp(files)[0] < timestamp:
                continue
            found = _search(segment, files, timestamp, start)
            if found is not None:
                return found
    return None


def _search(
    segment: Segment, files: SegmentFiles, timestamp: int, start: int
) -> TimestampOffset | None:
    first = max(files.times.lookup_before(timestamp), start)
    # An index that points behind the segment is wrong; then every message is looked at.
    place = segment.find(files, first) or segment.find(files, start)
    if place is None:
        return None
    for position, info in walk(files.fd, place[0], segment.size):
        if info.max_timestamp < timestamp:
            continue
        entry = os.pread(files.fd, info.size, position)
        for record in iter_records(entry, start_offset=start):
            if record.timestamp >= timestamp:
                return TimestampOffset(record.offset, record.timestamp)
    return None


def segment_offsets_before(log: LogView, timestamp: int, max_count: int) -> list[int]:
    """Answer ListOffsets v0: starts of segments last written before a time, newest first.

    Args:
        log: where to look.
        timestamp: ms since 1970, `LATEST` (the high watermark and every start) or `EARLIEST`.
        max_count: how many at most.

    Raises:
        OSError: the disk failed.
    """
    segments = [segment for segment in log.segments if segment.size] or [log.segments[0]]
    offsets = [max(segment.base_offset, log.log_start_offset) for segment in segments]
    if timestamp == EARLIEST:
        found = offsets[:1]
    elif timestamp == LATEST:
        found = [*offsets, log.high_watermark] if segments[-1].size else offsets
    else:
        count = 0
        for index, segment in enumerate(segments, 1):
            if segment.path(names.LOG).stat().st_mtime_ns // 1_000_000 <= timestamp:
                count = index
        found = offsets[:count]
        if count == len(segments) and timestamp >= log.now_ms() and segments[-1].size:
            found = [*offsets, log.high_watermark]
    return found[::-1][:max_count]
