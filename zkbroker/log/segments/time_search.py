"""Search for offsets by time.

Invariant: `first_at_or_after` finds the first message, in offset order, whose timestamp is at least
the requested one, whether or not timestamps grow. Messages of magic 0 have none and are never
found.
"""

import os
from typing import Final, NamedTuple

from zkbroker.log.segments.entries import walk
from zkbroker.log.segments.files import SegmentFiles
from zkbroker.log.segments.segment import Segment
from zkbroker.records import iter_records

LATEST: Final = -1
EARLIEST: Final = -2


class TimestampOffset(NamedTuple):
    """A message found by time: its offset and its timestamp in ms."""

    offset: int
    timestamp: int


def first_at_or_after(
    segment: Segment, files: SegmentFiles, timestamp: int, start: int
) -> TimestampOffset | None:
    """Find the first message of a segment at or after a time (ms), not below the offset `start`.

    Raises:
        OSError: the disk failed.
    """
    if segment.largest_timestamp(files) < timestamp:
        return None
    first = max(files.times.lookup_before(timestamp), start)
    # An index that points past the segment is wrong; then every message is checked.
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
