"""Truncation and retention: they move the two ends of a log.

Invariant: a crash leaves no gap. The new start is on stable storage before the first file is
removed. Messages stop counting as stable or compacted before a truncation removes them.
"""

import logging
from functools import partial

from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.log.parts import NO_EPOCH, LogParts
from zkbroker.log.producers.loading import load_producers
from zkbroker.log.producers.state import ProducerState, drop_snapshots
from zkbroker.log.retention import SegmentSummary, expired

logger = logging.getLogger(__name__)


def advance_start(log: LogParts, offset: int) -> int:
    """Move a log's start, see `Log.advance_start_to`; returns how many segments were dropped."""
    directory, offload = log.directory, log.directory.runtime.offload
    with log.files_lock:
        with log.lock, directory.storage():
            log.require_online()
            if offset > log.log_end_offset:
                raise OffsetOutOfRange(
                    f"offset {offset} of {log.topic_partition} is past its end",
                    earliest=log.log_start_offset,
                    latest=log.log_end_offset,
                )
            moved = offset > log.log_start_offset
            if moved:
                log.log_start_offset = offset
                offload(log.epochs.advance_start_to, offset)
            stored = directory.start_offsets.get(log.topic_partition, 0)
            left = log.segment_list.index_of(log.log_start_offset)
            # An earlier call may have moved the start without being able to store it.
            if not moved and not left and stored >= log.log_start_offset:
                return 0
        # Stable before the first file is removed: then a crash that brings some files back leaves
        # no gap.
        directory.save_start_offset(log.topic_partition, lambda: log.log_start_offset)
        with log.lock, directory.storage():
            log.require_online()
            count = log.segment_list.drop_below(log.log_start_offset)
            log.durability.keep(log.segments)
            if count:
                drop_snapshots(directory.fs, log.path, below=log.segments[0].base_offset)
        with directory.storage():
            offload(directory.fs.fsync_dir, log.path)
    if count:
        logger.info(
            "segments deleted partition=%s count=%d log_start_offset=%d",
            log.topic_partition,
            count,
            log.log_start_offset,
        )
    return count


def delete_old_segments(log: LogParts, now_ms: int, end: int) -> int:
    """Delete what the retention policy expires below the high watermark; returns how many segments.

    Raises:
        ConfigError: the policy cannot be loaded, or failed.
        StorageError: the disk failed.
    """
    # Held from the decision on: a truncation in between would remove what the decision is about.
    with log.files_lock:
        start = log.log_start_offset
        if "delete" in log.config.cleanup_policy:
            start = _start_by_policy(log, now_ms, end)
        return advance_start(log, start)


def _start_by_policy(log: LogParts, now_ms: int, end: int) -> int:
    with log.lock, log.directory.storage():
        log.require_online()
        segments = log.segments
        # An active segment with entries may be deleted; a new one takes its place.
        usable = segments if segments[-1].size else segments[:-1]
        newest_ms = log.segment_list.largest_timestamp
        summaries = [
            SegmentSummary(each.base_offset, each.size, newest_ms(each)) for each in usable
        ]
        count = min(expired(log.config, log.path, summaries, now_ms), len(summaries))
        if count and count == len(segments) and log.log_end_offset <= end:
            log.roll(now_ms=now_ms)
        bases = [each.base_offset for each in log.segments[: max(count, 0) + 1]]
        return max((base for base in bases if base <= end), default=log.log_start_offset)


def truncate(log: LogParts, offset: int) -> None:
    """See `Log.truncate_to`."""
    directory, offload = log.directory, log.directory.runtime.offload
    with log.files_lock, log.lock:
        log.require_online()
        if offset >= log.log_end_offset:
            # Drop an epoch that begins at the end and has no message: a follower that asks its
            # leader about that epoch would otherwise ask for ever.
            with directory.storage():
                offload(log.epochs.truncate_to, log.log_end_offset)
            return
        if offset <= log.log_start_offset:
            _restart(log, offset)
            return
        with directory.storage():
            log.segment_list.check_cut(offset)
        _forget_stable(log, offset)
        with directory.storage(half_done=True):
            end = log.log_end_offset = log.segment_list.truncate_to(offset)
            log.led_under = NO_EPOCH
            log.durability.truncated(end, log.segments)
            offload(log.epochs.truncate_to, end)
            drop_snapshots(directory.fs, log.path, above=end)
            load = partial(load_producers, log.path, list(log.segments), end, clean=False)
            producers = offload(load)
            log.tracking.truncate_to(end, producers)
            offload(directory.fs.fsync_dir, log.path)
    logger.info("log truncated partition=%s log_end_offset=%d", log.topic_partition, end)


def restart(log: LogParts, offset: int) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    with log.files_lock, log.lock:
        log.require_online()
        _restart(log, offset)
    logger.info("log emptied partition=%s log_start_offset=%d", log.topic_partition, offset)


def _restart(log: LogParts, offset: int) -> None:
    directory, offload = log.directory, log.directory.runtime.offload
    _forget_stable(log, min(offset, log.log_start_offset))
    with directory.storage(half_done=True):
        log.segment_list.restart_at(offset)
        log.log_start_offset = log.log_end_offset = offset
        log.led_under = NO_EPOCH
        log.durability.truncated(offset, log.segments)
        offload(log.epochs.clear)
        drop_snapshots(directory.fs, log.path, below=2**63)
        log.tracking.truncate_to(0, ProducerState())
        offload(directory.fs.fsync_dir, log.path)
    try:
        directory.save_start_offset(log.topic_partition, lambda: log.log_start_offset)
    except StorageError as error:
        # The log is empty already: the next checkpoint of all logs has its start.
        logger.warning("start not stored partition=%s reason=%s", log.topic_partition, error)
    log.require_online()


def _forget_stable(log: LogParts, end: int) -> None:
    """Stop counting messages from an offset on as stable or compacted."""
    log.truncations += 1
    log.lowest_cut = min(log.lowest_cut, end)
    log.directory.lower_cleaned(log.topic_partition, end)
    log.durability.lower(end)
    # A flush while this waits for its turn finds the messages stable again.
    log.directory.save_recovery_point(
        log.topic_partition, lambda: min(end, log.durability.recovery_start)
    )
    log.require_online()
