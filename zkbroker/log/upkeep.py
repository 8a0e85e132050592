"""Periodic work on all logs: flushes, checkpoints, retention and removal of deleted files.

Invariant: all work that waits for a disk runs off the event loop, and an unusable log does not stop
the work on the others. Files in an offline directory stay.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from zkbroker.config.log import LogManagerConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.directories import DataDirectories
from zkbroker.log.directory import DataDirectory, Offsets
from zkbroker.log.log import Log
from zkbroker.log.log_set import LogSet
from zkbroker.log.names import TopicPartition
from zkbroker.log.topic_settings import TopicSettings
from zkbroker.log.trimming import delete_old_segments
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)

HighWatermarks: TypeAlias = Callable[[], Mapping[TopicPartition, int]]

_FIRST_RETENTION_MS = 30_000
_LONGEST_SLEEP_MS = 1000


class LogUpkeep:
    """The periodic work; its tasks call these methods, and so may tests and tools."""

    def __init__(
        self,
        config: LogManagerConfig,
        directories: DataDirectories,
        logs: LogSet,
        settings: TopicSettings,
        runtime: Runtime,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._directories = directories
        self._logs = logs
        self._settings = settings
        self._now_ms = now_ms
        self._loops = (
            OwnerLoop(runtime, self._flush_in_time, name="log-flush", logger=logger),
            OwnerLoop(runtime, self._maintain, name="log-upkeep", logger=logger),
        )
        self._checkpoint_due_ms = self._retention_due_ms = 0
        self.read_high_watermarks: HighWatermarks | None = None
        """Returns the high watermarks; None until the partitions are known."""

    def start(self) -> None:
        """Start the tasks."""
        now = self._now_ms()
        self._checkpoint_due_ms = now + self._config.recovery_checkpoint_ms
        self._retention_due_ms = now + min(self._config.retention_check_ms, _FIRST_RETENTION_MS)
        for loop in self._loops:
            loop.start(0.0)

    def stop(self, timeout_s: float) -> None:
        """Stop the tasks after their present step."""
        for loop in self._loops:
            loop.close(timeout_s)

    def _flush_in_time(self) -> float:
        following = self.flush_due()
        # A log without unflushed messages may get some that are due soon.
        wait_ms = min(
            self._config.flush_scheduler_ms,
            _LONGEST_SLEEP_MS,
            *(log.config.flush_ms for log in self._logs.online()),
        )
        if following is not None:
            wait_ms = min(wait_ms, following - self._now_ms())
        return max(wait_ms, 1) / 1000

    def _maintain(self) -> float:
        now = self._now_ms()
        self.run_deletions(now)
        if now >= self._checkpoint_due_ms:
            self.checkpoint()
            self._checkpoint_due_ms = now + self._config.recovery_checkpoint_ms
        if now >= self._retention_due_ms:
            self.run_retention(now)
            for log in self._logs.online():
                log.producers.expire(now, self._config.producer_id_expiration_ms)
            self._retention_due_ms = now + self._config.retention_check_ms
        return _LONGEST_SLEEP_MS / 1000

    # Flushes

    def flush_due(self) -> int | None:
        """Flush every log whose oldest unflushed message has reached `flush.ms`.

        Returns:
            When the next log is due, in ms since 1970; None if there is none.
        """
        now = self._now_ms()
        following: int | None = None
        started: list[tuple[Log, int]] = []
        for log in self._logs.online():
            since = log.durability.unflushed_since_ms
            if since is None or log.offline is not None:
                continue
            due = since + log.config.flush_ms
            if due <= now:
                started.append((log, log.log_end_offset))
                log.durability.request(log.log_end_offset)
            elif following is None or due < following:
                following = due
        # The flushes run in parallel, so that the last of many is not late.
        for log, end in started:
            try:
                log.durability.wait(end, None)
            except StorageError as error:
                logger.debug("flush failed partition=%s error=%s", log.topic_partition, error)
        return following

    # Checkpoints

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks; those of the checkpoint until the partitions are known."""
        if self.read_high_watermarks is not None:
            return dict(self.read_high_watermarks())
        return self.checkpointed_high_watermarks()

    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that the last broker of these directories wrote."""
        return {
            tp: offset
            for directory in self._directories.all
            for tp, offset in directory.high_watermarks.items()
        }

    def checkpoint(self) -> None:
        """Write the recovery points, start offsets and high watermarks."""
        for directory in self._directories.online():
            directory.write_checkpoints(partial(self._offsets_of, directory))

    def checkpoint_high_watermarks(self) -> None:
        """Write the changed high watermarks, into each data directory those of its logs."""
        for directory in self._directories.online():
            directory.save_high_watermarks(partial(self._marks_of, directory))

    def _offsets_of(self, directory: DataDirectory) -> tuple[Offsets, Offsets, Offsets]:
        """Return recovery points, start offsets and high watermarks, also of unopened logs."""
        points, starts = {}, {}
        for tp, state in self._logs.unopened_of(directory).items():
            points[tp], starts[tp] = state.recovery_point, state.log_start_offset
        for tp, log in self._logs.of(directory).items():
            points[tp], starts[tp] = log.durability.recovery_start, log.log_start_offset
        return points, starts, self._marks_of(directory)

    def _marks_of(self, directory: DataDirectory) -> Offsets:
        marks = self.high_watermarks()
        ends = {tp: each.log_end_offset for tp, each in self._logs.unopened_of(directory).items()}
        ends |= {tp: log.log_end_offset for tp, log in self._logs.of(directory).items()}
        return {tp: min(marks[tp], end) for tp, end in ends.items() if tp in marks}

    # Retention

    def deletable(self) -> list[tuple[Log, int]]:
        """Return the logs from which segments may be deleted, with their high watermarks."""
        read = self.read_high_watermarks
        marks = None if read is None else read()
        return [
            (log, log.log_end_offset if marks is None else marks[log.topic_partition])
            for log in self._logs.online()
            if log.topic_partition.topic in self._settings.known
            and (marks is None or log.topic_partition in marks)
        ]

    def run_retention(self, now_ms: int | None = None) -> int:
        """Delete the segments that retention policies expire; returns how many.

        Only topics whose own settings are known lose segments, and only up to their high
        watermark. The cleaner deletes segments of compacted logs.
        """
        now = self._now_ms() if now_ms is None else now_ms
        deleted = 0
        for log, high_watermark in self.deletable():
            if log.offline is None and not log.config.compacted:
                try:
                    deleted += delete_old_segments(log, now, high_watermark)
                except (ConfigError, StorageError) as error:
                    tp = log.topic_partition
                    logger.warning("retention failed partition=%s error=%s", tp, error)
        return deleted

    def run_deletions(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over; returns how many paths."""
        now = self._now_ms() if now_ms is None else now_ms
        return sum(each.remove_discarded(now) for each in self._directories.online())
