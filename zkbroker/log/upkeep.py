"""What is done to logs in the background: flushing in time, checkpoints, retention, file removal.

Invariant: everything that waits for a disk is done off the event loop, and a log that cannot be
used stops nothing for the others.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from zkbroker.config.log import LogManagerConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.datadir import DataDirectory
from zkbroker.log.fs import FileSystem
from zkbroker.log.log import Log
from zkbroker.runtime import Runtime, Task

logger = logging.getLogger(__name__)

_FIRST_RETENTION_MS = 30_000
_LONGEST_SLEEP_MS = 1000


class Upkeep:
    """Looks after the logs of some data directories, from `start` to `stop`."""

    def __init__(
        self,
        config: LogManagerConfig,
        directories: list[DataDirectory],
        runtime: Runtime,
        now_ms: Callable[[], int],
        fs: FileSystem,
        configured: Callable[[str], bool],
    ) -> None:
        """Make one; `start` begins the work.

        Args:
            config: settings of all logs together.
            directories: the data directories; the list may grow before `start`.
            runtime: concurrency.
            now_ms: the clock.
            fs: the file system.
            configured: whether a topic's own settings are known. Until they are, nothing of the
                topic is deleted: the broker's defaults might keep less than the topic wants.
        """
        self._configured = configured
        self._config = config
        self._directories = directories
        self._runtime = runtime
        self._now_ms = now_ms
        self._fs = fs
        self._stopping = runtime.event()
        self._tasks: list[Task] = []

    def start(self) -> None:
        """Start the background tasks."""
        for work, name in ((self._flush_loop, "log-flush"), (self._upkeep_loop, "log-upkeep")):
            self._tasks.append(self._runtime.spawn(work, name=name))

    def stop(self, timeout_s: float) -> None:
        """Stop the background tasks, and wait for what they are doing."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        for task in self._tasks:
            task.join(max(deadline - time.monotonic(), 0.1))

    def _online(self) -> list[DataDirectory]:
        return [each for each in self._directories if each.context.offline is None]

    def _logs(self) -> list[Log]:
        return [log for directory in self._online() for log in list(directory.logs.values())]

    def flush_due(self, now_ms: int | None = None) -> int | None:
        """Flush every log whose oldest unflushed message has reached `flush.ms`.

        Returns:
            When the next one is due, in ms since 1970; None when nothing waits.
        """
        now = self._now_ms() if now_ms is None else now_ms
        following: int | None = None
        started: list[tuple[Log, int]] = []
        for log in self._logs():
            since = log.unflushed_since_ms
            if since is None or log.offline is not None:
                continue
            due = since + log.config.flush_ms
            if due <= now:
                started.append((log, log.start_flush()))
            elif following is None or due < following:
                following = due
        # They run side by side; so the last of many is not late.
        for log, end in started:
            try:
                log.wait_flushed(end)
            except StorageError as error:
                logger.debug("flush failed partition=%s error=%s", log.topic_partition, error)
        return following

    def checkpoint(self) -> None:
        """Write the recovery points, start offsets and high watermarks, off the event loop."""
        for directory in self._online():
            directory.write_checkpoints()

    def run_retention(self, now_ms: int | None = None) -> int:
        """Delete what the logs' retention policies let go; returns how many segments.

        Only of topics whose own settings are known.
        """
        now = self._now_ms() if now_ms is None else now_ms
        deleted = 0
        for log in self._logs():
            if log.offline is None and self._configured(log.topic_partition.topic):
                try:
                    deleted += log.delete_old_segments(now)
                except (ConfigError, StorageError) as error:
                    logger.warning(
                        "retention failed partition=%s error=%s", log.topic_partition, error
                    )
        return deleted

    def expire_producers(self, now_ms: int | None = None) -> None:
        """Forget idempotent producers that were silent for longer than their state is kept."""
        now = self._now_ms() if now_ms is None else now_ms
        for log in self._logs():
            log.producers.expire(now, self._config.producer_id_expiration_ms)

    def run_deletions(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over, off the event loop; returns how many paths."""
        now = self._now_ms() if now_ms is None else now_ms
        removed = 0
        for directory in self._online():
            context = directory.context
            for pair in [pair for pair in context.doomed if pair[0] <= now]:
                try:
                    context.doomed.remove(pair)
                except ValueError:
                    # Another caller took it just now.
                    continue
                try:
                    self._runtime.offload(self._remove, pair[1])
                except OSError as error:
                    context.fail(error)
                    break
                removed += 1
        return removed

    def _remove(self, path: Path) -> None:
        if path.is_dir():
            self._fs.remove_tree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(path)

    def _flush_loop(self) -> None:
        while not self._stopping.is_set():
            following = self.flush_due()
            # A log that has nothing to flush now may get something that is due soon after.
            wait_ms = min(
                self._config.flush_scheduler_ms,
                _LONGEST_SLEEP_MS,
                *(log.config.flush_ms for log in self._logs()),
            )
            if following is not None:
                wait_ms = min(wait_ms, following - self._now_ms())
            self._stopping.wait(max(wait_ms, 1) / 1000)

    def _upkeep_loop(self) -> None:
        now = self._now_ms()
        checkpoint_due = now + self._config.recovery_checkpoint_ms
        retention_due = now + min(self._config.retention_check_ms, _FIRST_RETENTION_MS)
        while not self._stopping.wait(_LONGEST_SLEEP_MS / 1000):
            now = self._now_ms()
            self.run_deletions(now)
            if now >= checkpoint_due:
                self.checkpoint()
                checkpoint_due = now + self._config.recovery_checkpoint_ms
            if now >= retention_due:
                self.run_retention(now)
                self.expire_producers(now)
                retention_due = now + self._config.retention_check_ms
