"""Writes the high watermarks of all partitions down, time and again.

Invariant: what is written was true when it was written, so that a broker that starts lets readers
see at least as much of a log as they saw one interval before it stopped.
"""

import logging

from zkbroker.errors import ZkbrokerError
from zkbroker.log import LogManager
from zkbroker.runtime import Runtime, Task

logger = logging.getLogger(__name__)


class HighWatermarkCheckpoint:
    """The task that writes `replication-offset-checkpoint`.

    Args:
        logs: the started log manager.
        interval_ms: time between two writes (`replica.high.watermark.checkpoint.interval.ms`).
        runtime: for the task.
    """

    def __init__(self, logs: LogManager, interval_ms: int, *, runtime: Runtime) -> None:
        self._logs = logs
        self._interval_s = interval_ms / 1000
        self._runtime = runtime
        self._stop = runtime.event()
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._runtime.spawn(self._run, name="high-watermark-checkpoint")

    def close(self, timeout_s: float) -> None:
        """End the task; the log manager writes once more when it closes."""
        self._stop.set()
        if self._task is not None:
            self._task.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self._logs.checkpoint_high_watermarks()
            except ZkbrokerError as error:
                logger.warning("high watermarks not written error=%s", error)
