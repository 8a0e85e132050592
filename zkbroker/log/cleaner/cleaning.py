"""One pass over one log.

    flush -> map the dirty part -> group all segments before the end -> copy each group beside
    the log -> swap it in -> write the end to the checkpoint

Invariant: groups are swapped in ascending order, so a record without a value is never removed while
an older value of its key is still there. A pass that ends early leaves a valid, partly compacted
log; the next pass starts over.
"""

import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from zkbroker.log import names
from zkbroker.log.cleaner.copying import Copier, CopyCounts
from zkbroker.log.cleaner.grouping import group_segments
from zkbroker.log.cleaner.mapping import map_segments
from zkbroker.log.cleaner.offset_map import OffsetMap
from zkbroker.log.cleaner.pace import Pace
from zkbroker.log.cleaner.selection import Cleanable
from zkbroker.log.cleaner.throttle import Throttle
from zkbroker.log.cleaner.transactions import PassTransactions, aborted_between
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.replacing import drop_snapshots_below, replace_segments, segment_writer
from zkbroker.log.segments.replacement import SegmentWriter
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


class CleaningAborted(Exception):
    """The log was truncated, deleted or closed during compaction; this is no failure."""


@dataclass(frozen=True, slots=True)
class PassSettings:
    """Settings of a pass.

    Args:
        map_bytes: memory of the offset map.
        load_factor: how full it may become.
        io_bytes: how much to read or write at once.
        paced: whether to rest between steps, because clients are served meanwhile.
    """

    map_bytes: int
    load_factor: float
    io_bytes: int
    paced: bool = False


@dataclass(slots=True)
class CleanStats:
    """Results of a pass or of a dry run."""

    start_offset: int = 0
    end_offset: int = 0
    segments_before: int = 0
    segments_after: int = 0
    bytes_moved: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    keys: int = 0
    map_bytes: int = 0
    seconds: float = 0.0
    copied: CopyCounts = field(default_factory=CopyCounts)


@dataclass(slots=True)
class _Counting:
    """A target that writes nothing and only counts bytes."""

    size: int = 0

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self.size += len(data)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        pass


class _Pass:
    def __init__(
        self,
        part: Cleanable,
        settings: PassSettings,
        throttle: Throttle | None,
        stopping: Callable[[], bool],
    ) -> None:
        self._part = part
        self._log: Log = part.log
        self._settings = settings
        self._throttle = throttle
        self._pace = Pace() if settings.paced else None
        self._stopping = stopping
        self.stats = CleanStats(start_offset=part.first_dirty)
        self.offsets = OffsetMap(
            settings.map_bytes, settings.load_factor, offsets=max(part.end - part.first_dirty, 0)
        )

    def check(self) -> None:
        """End the pass if the broker stops or the log has changed."""
        log = self._log
        if self._stopping():
            raise CleaningAborted("the broker is stopping")
        if log.offline is not None:
            raise CleaningAborted(log.offline)
        if log.truncations != self._part.truncations:
            raise CleaningAborted(f"{log.topic_partition} was truncated")

    def moved(self, count: int) -> None:
        """Count bytes that are read or written, and throttle the pass."""
        self.stats.bytes_moved += count
        if self._pace is not None:
            self._pace.rest()
        if self._throttle is not None:
            self._throttle.take(count, self.check)
        else:
            self.check()

    def map(self) -> int:
        """Fill the map; returns the offset up to which it is complete."""
        part, stats = self._part, self.stats
        map_segments(
            self.offsets,
            self._log.segments,
            part.first_dirty,
            part.end,
            io_bytes=self._settings.io_bytes,
            on_bytes=self.moved,
        )
        stats.keys, stats.map_bytes = self.offsets.keys, self.offsets.memory_bytes
        stats.end_offset = max(self.offsets.end_offset, part.first_dirty)
        return stats.end_offset

    def horizon_ms(self) -> int:
        """Return the time since which records without a value stay."""
        clean = [each for each in self._part.segments if each.base_offset < self._part.first_dirty]
        if not clean:
            return 0
        return clean[-1].modified_ms() - self._log.config.delete_retention_ms

    def groups(self, end: int) -> list[list[Segment]]:
        """Return the segments before the end, in the groups that are to be joined."""
        segments = [each for each in self._part.segments if each.base_offset < end]
        self.stats.segments_before = len(segments)
        self.stats.bytes_before = sum(each.size for each in segments)
        return group_segments(segments, self._part.end, self._log.config)

    def copier(self, end: int, horizon_ms: int) -> Copier:
        segments = self._log.segments
        aborted = aborted_between(segments, segments[0].base_offset, self._part.end)
        return Copier(
            map=self.offsets,
            end=end,
            horizon_ms=horizon_ms,
            transactions=PassTransactions(aborted),
            producers=self._log.producers.last_records(),
            counts=self.stats.copied,
            io_bytes=self._settings.io_bytes,
            on_bytes=self.moved,
        )

    def write(self, copier: Copier, group: list[Segment]) -> SegmentWriter:
        """Write the compacted segment of a group beside the log."""
        writer = segment_writer(self._log, group[0].base_offset)
        try:
            copier.copy(group, writer)
            writer.finish()
            modified = group[-1].path(names.LOG).stat().st_mtime_ns
            for suffix in (names.LOG, names.INDEX, names.TIMEINDEX):
                self._log.directory.fs.set_mtime(writer.segment.path(suffix), modified)
        except BaseException:
            writer.abandon()
            raise
        return writer


def clean(
    part: Cleanable,
    settings: PassSettings,
    *,
    keep: Callable[[], Set[TopicPartition]],
    throttle: Throttle | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> CleanStats:
    """Compact a log.

    Args:
        part: the log and the part to compact.
        settings: of the pass.
        keep: returns the partitions of its data directory.
        throttle: limits the rate of the pass.
        stopping: returns whether to end the pass early.

    Raises:
        CleaningAborted: the log was truncated, deleted or closed.
        CorruptMessage: an entry is damaged.
        StorageError: the disk failed.
    """
    log, started = part.log, time.monotonic()
    directory, offload = log.directory, log.directory.runtime.offload
    run = _Pass(part, settings, throttle, stopping)
    stats = run.stats
    try:
        with directory.storage():
            # First flush: no record may be removed in favour of a record or marker that a power cut
            # could still destroy, and recovery must not verify the offsets that will be missing.
            log.flush()
            directory.save_recovery_point(
                log.topic_partition, lambda: log.durability.recovery_start
            )
            end = offload(run.map)
            horizon_ms = offload(run.horizon_ms)
            groups = offload(run.groups, end)
            copier = run.copier(end, horizon_ms)
            if groups:
                drop_snapshots_below(log, part.end_of(groups[-1][-1]))
            for group in groups:
                copier.producers = log.producers.last_records()
                writer = offload(run.write, copier, group)
                try:
                    run.check()
                    replace_segments(log, group, [writer], truncations=part.truncations)
                except (ValueError, CleaningAborted) as error:
                    offload(writer.abandon)
                    raise CleaningAborted(str(error)) from error
                stats.segments_after += 1
                stats.bytes_after += writer.size
    finally:
        offload(run.offsets.close)
    directory.save_cleaned(
        log.topic_partition,
        lambda: end if log.truncations == part.truncations and log.offline is None else None,
        keep(),
    )
    stats.seconds = time.monotonic() - started
    logger.info(
        "log compacted partition=%s offsets=%d-%d segments=%d-%d bytes=%d-%d keys=%d seconds=%.3f",
        log.topic_partition,
        stats.start_offset,
        stats.end_offset,
        stats.segments_before,
        stats.segments_after,
        stats.bytes_before,
        stats.bytes_after,
        stats.keys,
        stats.seconds,
    )
    return stats


def dry_run(part: Cleanable, settings: PassSettings) -> CleanStats:
    """Return what `clean` would do, and change nothing.

    Raises:
        CorruptMessage: an entry is damaged.
        StorageError: the disk failed.
    """
    started = time.monotonic()
    run, counting = _Pass(part, settings, None, lambda: False), _Counting()
    try:
        with part.log.directory.storage():
            end = run.map()
            horizon_ms = run.horizon_ms()
            copier = run.copier(end, horizon_ms)
            for group in run.groups(end):
                copier.copy(group, counting)
                run.stats.segments_after += 1
    finally:
        run.offsets.close()
    run.stats.bytes_after = counting.size
    run.stats.seconds = time.monotonic() - started
    return run.stats
