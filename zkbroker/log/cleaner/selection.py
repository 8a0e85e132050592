"""The cleanable part of a log and its dirty ratio.

    | compacted before | dirty, cleanable | open transactions, young, active, not replicated |
    start              first dirty        end                                           log end

Invariant: no record is removed in favour of one above the high watermark, which may be truncated.
The active segment, and everything from the first open transaction on, stay as they are.
"""

from dataclasses import dataclass

from zkbroker.log.log import Log
from zkbroker.log.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Cleanable:
    """A log and the part of it that may be compacted.

    Args:
        log: the log.
        first_dirty: the offset up to which it was compacted.
        end: the first offset that may not be compacted; the base offset of a segment.
        clean_bytes: of the segments before the first dirty offset.
        dirty_bytes: of the segments from there to the end.
        truncations: the log's count of truncations at this time.
    """

    log: Log
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    truncations: int

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that may be compacted, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments before the end."""
        return tuple(each for each in self.log.segments if each.base_offset < self.end)

    def end_of(self, segment: Segment) -> int:
        """The offset after one of these segments."""
        behind = (each.base_offset for each in self.segments)
        return min((base for base in behind if base > segment.base_offset), default=self.end)


def cleanable_part(log: Log, high_watermark: int, now_ms: int) -> Cleanable:
    """Return the part of a log that may be compacted.

    Raises:
        StorageError: the disk failed.
    """
    truncations = log.truncations
    segments = log.segments
    first = segments[0].base_offset
    dirty = log.directory.cleaned.get(log.topic_partition, first)
    if not first <= dirty <= log.log_end_offset:
        dirty = first
    unstable = log.first_unstable_offset
    bounds = [segments[-1].base_offset, high_watermark]
    if unstable is not None:
        bounds.append(unstable)
    behind = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    if log.config.min_compaction_lag_ms > 0:
        young = now_ms - log.config.min_compaction_lag_ms
        with log.lock, log.directory.storage():
            log.require_online()
            for segment, following in zip(segments[:-1], behind, strict=False):
                if following > dirty and log.segment_list.largest_timestamp(segment) > young:
                    bounds.append(segment.base_offset)
                    break
    bound = min(bounds)
    end = max((each.base_offset for each in segments if each.base_offset <= bound), default=first)
    spans = list(zip(segments, behind, strict=True))
    return Cleanable(
        log,
        dirty,
        end,
        sum(each.size for each, following in spans if following <= dirty),
        sum(each.size for each, following in spans if following > dirty and each.base_offset < end),
        truncations,
    )
