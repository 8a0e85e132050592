"""Writes the high watermarks of all partitions to a checkpoint at regular intervals.

Invariant: a written mark was true at that time. A broker that restarts therefore lets readers see
at least as much of a log as they saw one interval before it stopped.
"""

import logging

from zkbroker.errors import ZkbrokerError
from zkbroker.log import LogManager
from zkbroker.runtime import OwnerLoop, Runtime

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
        self._loop = OwnerLoop(
            runtime,
            self._write,
            name="high-watermark-checkpoint",
            logger=logger,
            retry_s=self._interval_s,
            foreseen=(ZkbrokerError,),
        )

    def start(self) -> None:
        self._loop.start(self._interval_s)

    def close(self, timeout_s: float) -> None:
        """End the task; the log manager writes once more when it closes."""
        self._loop.close(timeout_s)

    def _write(self) -> float:
        self._logs.checkpoint_high_watermarks()
        return self._interval_s
