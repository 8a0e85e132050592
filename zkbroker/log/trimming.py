"""Taking segments off the old end of a log.

Invariant: the log start offset only grows, and is at least the first segment's base offset. It is
on stable storage before the first file below it goes, so that a crash that brings some of them back
leaves no hole. Files are renamed to `*.deleted` first and removed after a delay, off the event
loop. Readers that hold a slice keep it: nobody waits for a reader, and no reader waits.
"""

import contextlib
import logging

from zkbroker.errors import ConfigError, OffsetOutOfRange
from zkbroker.log import names
from zkbroker.log.producer_state import drop_snapshots
from zkbroker.log.retention import SegmentSummary, make_policy
from zkbroker.log.segment import Segment
from zkbroker.log.view import MutableLogView

logger = logging.getLogger(__name__)


def checked_start(log: MutableLogView, offset: int) -> int:
    """Return the start offset that DeleteRecords asks for.

    Args:
        log: the log.
        offset: first offset to keep; -1 is the high watermark.

    Raises:
        OffsetOutOfRange: the offset is past the high watermark.
    """
    high_watermark = log.high_watermark
    if offset == -1:
        return high_watermark
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(
            f"offset {offset} is not in [0, {high_watermark}]",
            earliest=log.log_start_offset,
            latest=high_watermark,
        )
    return offset


def retained_start(log: MutableLogView, now_ms: int) -> int:
    """Return the start offset that the retention policy leaves; it may roll the log.

    Raises:
        ConfigError: the policy cannot be had, or failed.
        OSError: the disk failed.
    """
    if "delete" not in log.config.cleanup_policy:
        return log.log_start_offset
    segments = log.segments
    # Only an active segment that holds something can go; a new one takes its place.
    usable = segments if segments[-1].size else segments[:-1]
    summaries = [_summary(log, segment) for segment in usable]
    count = min(_expired(log, summaries, now_ms), len(summaries))
    if count and count == len(segments):
        log.roll(now_ms=now_ms)
    return max(log.log_start_offset, log.segments[max(count, 0)].base_offset)


def segments_below_start(log: MutableLogView) -> int:
    """Return how many segments end at or before the log start offset."""
    count = 0
    for following in log.segments[1:]:
        if following.base_offset > log.log_start_offset:
            break
        count += 1
    return count


def _expired(log: MutableLogView, summaries: list[SegmentSummary], now_ms: int) -> int:
    """Ask the policy; what a user's policy raises says nothing of the disk."""
    try:
        return make_policy(log.config, log.directory).expired(summaries, now_ms)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"retention.policy={log.config.retention_policy!r} failed: {error!r}"
        ) from error


def _summary(log: MutableLogView, segment: Segment) -> SegmentSummary:
    with log.opened(segment) as files:
        newest, _ = segment.largest_timestamp(files)
    if newest < 0:
        newest = segment.path(names.LOG).stat().st_mtime_ns // 1_000_000
    return SegmentSummary(segment.base_offset, segment.size, newest)


def drop_below_start(log: MutableLogView) -> int:
    """Take the segments below the log start offset out of the log; returns how many.

    Raises:
        OSError: the disk failed.
    """
    count = segments_below_start(log)
    if count:
        leaving, staying = list(log.segments[:count]), list(log.segments[count:])
        log.set_segments(staying)
        retire(log, leaving)
        drop_snapshots(log.context.fs, log.directory, below=staying[0].base_offset)
        logger.info(
            "segments deleted partition=%s count=%d log_start_offset=%d",
            log.topic_partition,
            count,
            log.log_start_offset,
        )
    return count


def retire(log: MutableLogView, segments: list[Segment]) -> None:
    """Rename the files of segments that left the list, and have them removed later.

    Raises:
        OSError: the disk failed.
    """
    due = log.now_ms() + log.config.file_delete_delay_ms
    for segment in segments:
        log.context.open_files.forget(segment)
        for suffix in names.SEGMENT_SUFFIXES:
            path = segment.path(suffix)
            doomed = path.with_name(path.name + names.DELETED)
            with contextlib.suppress(FileNotFoundError):
                log.context.fs.rename(path, doomed)
                log.context.doomed.append((due, doomed))
        segment.suffix = names.DELETED
