"""Taking segments off the old end of a log.

Invariant: the log start offset only grows, and is at least the first segment's base offset. A
segment leaves the list first; then its files are renamed to `*.deleted`, so that a crash cannot
bring them back, and are removed after a delay, off the event loop. Readers that hold a slice keep
it: nobody waits for a reader, and no reader waits.
"""

import contextlib
import logging
from typing import TYPE_CHECKING

from zkbroker.errors import OffsetOutOfRange
from zkbroker.log import names
from zkbroker.log.producer_state import drop_snapshots
from zkbroker.log.retention import SegmentSummary, make_policy
from zkbroker.log.segment import Segment

if TYPE_CHECKING:
    from zkbroker.log.log import Log

logger = logging.getLogger(__name__)


def delete_records_before(log: "Log", offset: int) -> int:
    """Let the log begin at an offset.

    Args:
        log: the log.
        offset: first offset that is kept; -1 is the high watermark.

    Returns:
        The log start offset.

    Raises:
        OffsetOutOfRange: the offset is past the high watermark.
        OSError: the disk failed.
    """
    high_watermark = log.high_watermark
    if offset == -1:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(
            f"offset {offset} is not in [0, {high_watermark}]",
            earliest=log.log_start_offset,
            latest=high_watermark,
        )
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        _drop(log, _below_start(log))
    return log.log_start_offset


def delete_old_segments(log: "Log", now_ms: int) -> int:
    """Ask the log's retention policy, and delete what it lets go.

    Returns:
        How many segments were deleted.

    Raises:
        ConfigError: the policy cannot be had.
        OSError: the disk failed.
    """
    count = _below_start(log)
    if "delete" in log.config.cleanup_policy:
        policy = make_policy(log.config, log.directory)
        segments = log.segments
        # Only an active segment that holds something can go; a new one takes its place.
        usable = segments if segments[-1].size else segments[:-1]
        summaries = [_summary(log, segment) for segment in usable]
        count = max(count, min(policy.expired(summaries, now_ms), len(summaries)))
        if count and count == len(segments):
            log.roll(now_ms=now_ms)
    if count:
        log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
        _drop(log, count)
    return count


def _below_start(log: "Log") -> int:
    """Return how many segments end at or before the log start offset."""
    count = 0
    for following in log.segments[1:]:
        if following.base_offset > log.log_start_offset:
            break
        count += 1
    return count


def _summary(log: "Log", segment: Segment) -> SegmentSummary:
    with log.opened(segment) as files:
        newest, _ = segment.largest_timestamp(files)
    if newest < 0:
        newest = segment.path(names.LOG).stat().st_mtime_ns // 1_000_000
    return SegmentSummary(segment.base_offset, segment.size, newest)


def _drop(log: "Log", count: int) -> None:
    leaving, staying = log.segments[:count], list(log.segments[count:])
    if not leaving:
        return
    log.set_segments(staying)
    retire(log, list(leaving))
    drop_snapshots(log.context.fs, log.directory, below=staying[0].base_offset)
    log.truncate_epochs_start()
    logger.info(
        "segments deleted partition=%s count=%d log_start_offset=%d",
        log.topic_partition,
        count,
        log.log_start_offset,
    )


def retire(log: "Log", segments: list[Segment]) -> None:
    """Rename the files of segments that left the list, and have them removed later.

    Raises:
        OSError: the disk failed.
    """
    due = log.now_ms() + log.config.file_delete_delay_ms
    for segment in segments:
        for suffix in names.SEGMENT_SUFFIXES:
            path = segment.path(suffix)
            doomed = path.with_name(path.name + names.DELETED)
            with contextlib.suppress(FileNotFoundError):
                log.context.fs.rename(path, doomed)
                log.context.doomed.append((due, doomed))
        segment.suffix = names.DELETED
        log.context.open_files.forget(segment)
