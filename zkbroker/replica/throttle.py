"""How many bytes a second replicas that catch up may copy, so that clients keep their share.

Invariant: only replicas out of sync are throttled, since acks=all waits for those in sync. The rate
is measured over the last windows; once it exceeds the limit, nothing more is copied until the
average has fallen below it.
"""

import logging
from collections import deque
from functools import lru_cache

from zkbroker.log import TopicPartition
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

WINDOWS = 11
WINDOW_MS = 1000
EVERY = "*"


class ReplicationThrottle:
    """One direction of a broker: sends as leader, or fetches as follower.

    Args:
        runtime: its clock.
        windows: over how many windows the rate is measured.
        window_ms: length of a window.
    """

    def __init__(
        self, runtime: Runtime, *, windows: int = WINDOWS, window_ms: int = WINDOW_MS
    ) -> None:
        self._clock_ms = runtime.clock_ms
        self._windows = windows
        self._window_ms = window_ms
        self._taken: deque[list[int]] = deque()
        self.rate: int | None = None
        """Bytes a second; None for no limit."""

    def set_rate(self, text: str | None) -> None:
        """Set the rate that an operator wrote; a text that is no number above 0 sets no limit."""
        rate = int(text) if text is not None and text.isdecimal() else 0
        if text is not None and rate <= 0:
            logger.warning("replication is not throttled rate=%s: not above 0", text)
        if (rate or None) != self.rate:
            self.rate = rate or None
            logger.info("replication throttled rate=%s", self.rate)

    def record(self, size: int) -> None:
        """Count bytes that were copied under the limit."""
        now = self._clock_ms()
        if not self._taken or now >= self._taken[-1][0] + self._window_ms:
            self._taken.append([now, 0])
        self._taken[-1][1] += size

    @property
    def exceeded(self) -> bool:
        """Whether more bytes were copied than the rate allows."""
        if self.rate is None:
            return False
        now = self._clock_ms()
        while self._taken and now - self._taken[0][0] >= self._windows * self._window_ms:
            self._taken.popleft()
        if not self._taken:
            return False
        elapsed_ms = max(self._window_ms, now - self._taken[0][0])
        return sum(size for _, size in self._taken) * 1000 > self.rate * elapsed_ms


@lru_cache(maxsize=1024)
def _pairs(text: str) -> frozenset[tuple[int, int]]:
    pairs = (each.split(":") for each in text.split(","))
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)


def names_replica(text: str, key: TopicPartition, broker: int) -> bool:
    """Whether a topic's `….replication.throttled.replicas` names the replica on a broker.

    Args:
        text: `*`, `partition:broker,…` or nothing, as `LogConfig` has checked it.
        key: the partition.
        broker: where the replica is.
    """
    return bool(text) and (text == EVERY or (key.partition, broker) in _pairs(text))
