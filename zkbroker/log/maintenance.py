"""What is done to logs in the background: flushing in time and retention.

Invariant: everything that waits for a disk is done off the event loop, and a log that cannot be
used stops nothing for the others.
"""

import logging
import time
from collections.abc import Callable, Iterable

from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.log import Log
from zkbroker.log.trimming import delete_old_segments
from zkbroker.runtime import Runtime, Task

logger = logging.getLogger(__name__)


def flush_due(logs: Iterable[Log], now_ms: int) -> int | None:
    """Flush every log whose oldest unflushed message has reached `flush.ms`.

    Returns:
        When the next one is due, in ms since 1970; None when nothing waits.
    """
    following: int | None = None
    started: list[tuple[Log, int]] = []
    for log in logs:
        since = log.durability.unflushed_since_ms
        if since is None or log.offline is not None:
            continue
        due = since + log.config.flush_ms
        if due <= now_ms:
            end = log.log_end_offset
            log.durability.request(end)
            started.append((log, end))
        elif following is None or due < following:
            following = due
    # They run side by side; so the last of many is not late.
    for log, end in started:
        try:
            log.durability.wait(end, None)
        except StorageError as error:
            logger.debug("flush failed partition=%s error=%s", log.topic_partition, error)
    return following


def apply_retention(logs: Iterable[tuple[Log, int]], now_ms: int) -> int:
    """Delete what the logs' retention policies let go; returns how many segments.

    Compacted logs are left alone: the cleaner deletes what they may lose.

    Args:
        logs: each with its high watermark, behind which nothing is deleted.
        now_ms: the clock.
    """
    deleted = 0
    for log, high_watermark in logs:
        if log.offline is None and not log.config.compacted:
            try:
                deleted += delete_old_segments(log, now_ms, high_watermark)
            except (ConfigError, StorageError) as error:
                logger.warning("retention failed partition=%s error=%s", log.topic_partition, error)
    return deleted


class Schedule:
    """Tasks that do something again and again, until `stop`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stopping = runtime.event()
        self._tasks: list[Task] = []

    def add(self, work: Callable[[], float], *, name: str) -> None:
        """Have something done again and again; it returns after how many seconds next."""
        self._tasks.append(self._runtime.spawn(self._repeat, work, name=name))

    def _repeat(self, work: Callable[[], float]) -> None:
        while not self._stopping.wait(work()):
            pass

    def stop(self, timeout_s: float) -> None:
        """Stop the tasks, and wait for what they are doing."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        for task in self._tasks:
            task.join(max(deadline - time.monotonic(), 0.1))
