"""Background compaction of a broker's logs.

Invariant: one task at a time compacts a log or deletes its old segments. A log that cannot be
compacted stays as it is until the restart; the others are compacted nevertheless.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from zkbroker.config.log import LogManagerConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.cleaner.cleaning import CleaningAborted, CleanStats, PassSettings, clean
from zkbroker.log.cleaner.selection import Cleanable, cleanable_part
from zkbroker.log.cleaner.throttle import Throttle
from zkbroker.log.directory import NO_DESCRIPTORS
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.trimming import delete_old_segments
from zkbroker.runtime import Runtime, Task

logger = logging.getLogger(__name__)


def _pass_settings(config: LogManagerConfig) -> PassSettings:
    return PassSettings(
        config.cleaner_dedupe_bytes // config.cleaner_threads,
        config.cleaner_load_factor,
        max(config.cleaner_io_bytes // config.cleaner_threads, 1),
        paced=True,
    )


@dataclass(slots=True)
class CleanerMetrics:
    """Counts of the cleaner; the values of the last round are gauges."""

    max_dirty_percent: int = 0
    max_clean_time_s: float = 0.0
    max_buffer_utilization_percent: int = 0
    recopy_percent: int = 0
    last_run_ms: int | None = None
    passes: int = 0
    bytes_moved: int = 0
    bytes_removed: int = 0
    records_removed: int = 0


class LogCleaner:
    """Compacts logs.

    Args:
        config: of all logs.
        logs: returns the logs that may be compacted, each with its high watermark.
        present: returns the partitions in the data directory of a log.
        runtime: concurrency.
        now_ms: the clock.
    """

    def __init__(
        self,
        config: LogManagerConfig,
        *,
        logs: Callable[[], Iterable[tuple[Log, int]]],
        present: Callable[[Log], set[TopicPartition]],
        runtime: Runtime,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._logs = logs
        self._present = present
        self._runtime = runtime
        self._now_ms = now_ms
        self._throttle = Throttle(config.cleaner_bytes_per_s)
        self._settings = _pass_settings(config)
        self._lock = runtime.lock()
        self._busy: set[TopicPartition] = set()
        # Weak keys: a deleted log does not stay in memory.
        self._uncleanable: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
        self._stopping = runtime.event()
        self._tasks: dict[int, Task] = {}
        self.metrics = CleanerMetrics()

    # Tasks

    def start(self) -> None:
        """Start the tasks."""
        with self._lock:
            for number in range(self._config.cleaner_threads):
                if number not in self._tasks:
                    name = f"log-cleaner-{number}"
                    self._tasks[number] = self._runtime.spawn(self._repeat, number, name=name)

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Use new settings; a running pass finishes with those it began with."""
        self._config = config
        self._settings = _pass_settings(config)
        self._throttle.bytes_per_s = config.cleaner_bytes_per_s
        if self._tasks and not self._stopping.is_set():
            self.start()

    def stop(self, timeout_s: float) -> None:
        """Stop the tasks; a pass ends at its next block."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        for task in list(self._tasks.values()):
            task.join(max(deadline - time.monotonic(), 0.1))

    def _repeat(self, number: int) -> None:
        while not self._stopping.is_set():
            with self._lock:
                if number >= self._config.cleaner_threads:
                    # Fewer tasks are configured now; `reconfigure` may start this one again.
                    del self._tasks[number]
                    return
            worked = self.clean_one() is not None
            self.delete_old_segments()
            if not worked and self._stopping.wait(self._config.cleaner_backoff_ms / 1000):
                return
            self._runtime.sleep(0)

    # Rounds, called by the tasks, and by tests and tools

    def clean_one(self) -> CleanStats | None:
        """Compact the dirtiest log; returns None if no log needs it, or no file can be opened.

        An error is logged and makes the log uncleanable until the restart; it is compacted later if
        the process only had no file descriptors left.
        """
        part = self._take_dirtiest()
        if part is None:
            return None
        log, stats = part.log, None
        first = log.segments[0].base_offset
        try:
            stats = clean(
                part,
                self._settings,
                keep=lambda: self._present(log),
                throttle=self._throttle,
                stopping=self._stopping.is_set,
            )
        except CleaningAborted as reason:
            logger.info("pass ended early partition=%s reason=%s", log.topic_partition, reason)
        except StorageError as error:
            logger.warning("log not compacted partition=%s error=%s", log.topic_partition, error)
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in NO_DESCRIPTORS:
                return None
            # A file that left with its segment, since the log's start moved, is no damage.
            gone = isinstance(cause, FileNotFoundError) and log.segments[0].base_offset > first
            if log.offline is None and not gone:
                self._uncleanable[log] = str(error)
        except Exception as error:
            logger.exception(
                "log cannot be compacted until the restart partition=%s", log.topic_partition
            )
            self._uncleanable[log] = repr(error)
        finally:
            with self._lock:
                self._busy.discard(log.topic_partition)
        if stats is None:
            return CleanStats(part.first_dirty, part.first_dirty)
        self._count(stats)
        return stats

    def delete_old_segments(self) -> int:
        """Apply retention to compacted logs; returns how many segments were deleted."""
        deleted = 0
        for log, high_watermark in list(self._logs()):
            tp = log.topic_partition
            if not log.config.compacted or log.offline is not None:
                continue
            with self._lock:
                if tp in self._busy:
                    continue
                self._busy.add(tp)
            try:
                deleted += delete_old_segments(log, self._now_ms(), high_watermark)
            except (ConfigError, StorageError) as error:
                logger.warning("retention failed partition=%s error=%s", tp, error)
            finally:
                with self._lock:
                    self._busy.discard(tp)
        return deleted

    def uncleanable(self) -> Mapping[TopicPartition, str]:
        """Return the partitions that cannot be compacted until the restart, with the reason."""
        return {
            log.topic_partition: reason
            for log, reason in list(self._uncleanable.items())
            if log.offline is None
        }

    def uncleanable_bytes(self) -> int:
        """Return how many bytes of these partitions should be compacted."""
        return sum(
            cleanable_part(log, high_watermark, self._now_ms()).dirty_bytes
            for log, high_watermark in list(self._logs())
            if log in self._uncleanable and log.offline is None
        )

    def _take_dirtiest(self) -> Cleanable | None:
        now = self._now_ms()
        self.metrics.last_run_ms = now
        with self._lock:
            parts = []
            for log, high_watermark in list(self._logs()):
                if (
                    log.config.compacted
                    and log.offline is None
                    and log not in self._uncleanable
                    and log.topic_partition not in self._busy
                ):
                    try:
                        parts.append(cleanable_part(log, high_watermark, now))
                    except StorageError as error:
                        logger.warning(
                            "log not compacted partition=%s error=%s", log.topic_partition, error
                        )
            worth = [each for each in parts if each.dirty_bytes]
            top = max((each.ratio for each in worth), default=0.0)
            self.metrics.max_dirty_percent = round(100 * top)
            wanted = [each for each in worth if each.ratio > each.log.config.min_cleanable_ratio]
            if not wanted:
                return None
            chosen = max(wanted, key=lambda each: each.ratio)
            self._busy.add(chosen.log.topic_partition)
            return chosen

    def _count(self, stats: CleanStats) -> None:
        metrics = self.metrics
        metrics.passes += 1
        metrics.bytes_moved += stats.bytes_moved
        metrics.bytes_removed += stats.bytes_before - stats.bytes_after
        metrics.records_removed += stats.copied.records_seen - stats.copied.records_kept
        metrics.max_clean_time_s = max(metrics.max_clean_time_s, stats.seconds)
        used = 2400 * stats.keys // max(stats.map_bytes, 1)
        metrics.max_buffer_utilization_percent = max(metrics.max_buffer_utilization_percent, used)
        if stats.bytes_before:
            metrics.recopy_percent = 100 * stats.bytes_after // stats.bytes_before
