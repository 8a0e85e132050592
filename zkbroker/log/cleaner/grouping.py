"""Groups of neighbouring segments that become one segment.

Invariant: the segment of a group stays within the bounds of a segment: its bytes, the bytes of each
index, and offsets that fit 31 bits above its base offset.
"""

from collections.abc import Sequence

from zkbroker.config.log import LogConfig
from zkbroker.log import names
from zkbroker.log.segments.segment import MAX_RELATIVE_OFFSET, Segment


def group_segments(segments: Sequence[Segment], end: int, config: LogConfig) -> list[list[Segment]]:
    """Divide neighbouring segments, ascending up to the offset `end`, into groups, in order.

    Raises:
        OSError: the disk failed.
    """
    groups: list[list[Segment]] = []
    room = [0, 0, 0]
    limits = (config.segment_bytes, config.index_max_bytes, config.index_max_bytes)
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, behind in zip(segments, ends, strict=True):
        needs = (segment.size, _size(segment, names.INDEX), _size(segment, names.TIMEINDEX))
        fits = groups and all(
            used + need <= limit for used, need, limit in zip(room, needs, limits, strict=True)
        )
        if fits and behind - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
            room = [used + need for used, need in zip(room, needs, strict=True)]
        else:
            groups.append([segment])
            room = list(needs)
    return groups


def _size(segment: Segment, suffix: str) -> int:
    try:
        return segment.path(suffix).stat().st_size
    except FileNotFoundError:
        # The next read of the segment rebuilds it.
        return 0
