"""Replacement of closed segments by rewritten ones; reads and appends go on meanwhile.

Invariant: remaining messages keep their offsets; gaps may remain. After a crash at any point the
log has all of the old segments or all of the new ones.
"""

from collections.abc import Sequence
from functools import partial

from zkbroker.log.log import Log
from zkbroker.log.producers.state import drop_snapshots
from zkbroker.log.segments.replacement import (
    SegmentWriter,
    commit_plan,
    forget_plan,
    swap_files,
)
from zkbroker.log.segments.segment import Segment


def drop_snapshots_below(log: Log, offset: int) -> None:
    """Remove the producers' snapshots below an offset.

    A compaction drops markers whose data is gone. A recovery from an older snapshot, in which the
    transaction is open, would never see its end. The next `replace_segments` makes the removal
    stable.

    Raises:
        StorageError: the disk failed.
    """
    with log.files_lock, log.directory.storage():
        log.require_online()
        drop = partial(drop_snapshots, log.directory.fs, log.path, below=offset)
        log.directory.runtime.offload(drop)


def segment_writer(log: Log, base_offset: int) -> SegmentWriter:
    """Begin a segment beside a log, for `replace_segments`.

    Raises:
        StorageError: the disk failed.
    """
    with log.directory.storage():
        log.require_online()
        return SegmentWriter(log.segment_list.new(base_offset), log.config.index_max_bytes)


def replace_segments(
    log: Log,
    old: Sequence[Segment],
    new: Sequence[SegmentWriter],
    *,
    truncations: int | None = None,
) -> None:
    """Replace segments by segments that were written beside the log, all or nothing.

    Args:
        log: the log.
        old: neighbours, ascending, none of them the active one.
        new: finished, ascending, within the range of the old ones; may be empty.
        truncations: the log's count of truncations when the old ones were read.

    Raises:
        ValueError: the segments are not as described, or the log was truncated since; nothing
            changed.
        StorageError: the disk failed, or the log is gone.
    """
    fs, offload = log.directory.fs, log.directory.runtime.offload
    with log.files_lock:
        with log.lock:
            log.require_online()
            if truncations is not None and truncations != log.truncations:
                raise ValueError(f"{log.topic_partition} was truncated meanwhile")
            start, end = log.segment_list.neighbours(old)
            _require_within(new, start, end)
        bases = [each.segment.base_offset for each in new]
        # Once the plan exists, the log must not be written or truncated before it is carried out.
        with log.directory.storage(half_done=True):
            offload(commit_plan, fs, log.path, start, end, bases)
            with log.lock:
                swap_files(fs, log.path, start, end, bases)
                log.segment_list.put(start, end, [each.segment for each in new])
                log.durability.keep(log.segments)
            offload(forget_plan, fs, log.path)


def _require_within(new: Sequence[SegmentWriter], start: int, end: int) -> None:
    for each in new:
        base = each.segment.base_offset
        if not (start <= base < end and each.next_offset <= end):
            raise ValueError(
                f"a segment of offsets {base} to {each.next_offset} is not in [{start}, {end})"
            )
        start = max(each.next_offset, base + 1)
