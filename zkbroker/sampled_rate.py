"""A rate over the last windows, and how long to wait for the allowed rate.

    samples   | (empty) | 0        | 1        | …        | 10 (filling)
              oldest start <------- window -------> now

    rate      sum of the samples / window
    throttle  (rate - quota) / quota * window = sum / quota - window

Invariant: at most `number` samples of `size_ms` are kept. When the oldest one is dropped, what it
had above the quota is carried into the next: what a client left unused is forgotten, what it did
too much is not. One empty sample stands before a client's first: time before that is no further
credit, so that in any time the client has its quota for that time, and little more than that of one
sample and of one request.

Genuine brokers count ten empty samples before the first one, let the quota of ten seconds through
at once, and forget what is above the quota as well.
"""

from collections import deque

MAX_THROTTLE_MS = 2**31 - 1
"""What the field of an answer holds."""


class SampledRate:
    """What was done in the last samples.

    Args:
        number: samples that are kept.
        size_ms: length of each.
    """

    __slots__ = ("_number", "_samples", "_size_ms", "_sum")

    def __init__(self, number: int, size_ms: int) -> None:
        self._number = number
        self._size_ms = size_ms
        self._samples: deque[list[float]] = deque()
        self._sum = 0.0

    def record(self, amount: float, quota: float, now_ms: int) -> None:
        """Count something that was done now.

        Args:
            amount: how much.
            quota: per second, above 0.
            now_ms: of a clock that never goes back.
        """
        self._drop_old(quota, now_ms)
        samples = self._samples
        if not samples:
            samples.append([now_ms - self._size_ms, 0.0])
        if now_ms - samples[-1][0] >= self._size_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount
        self._sum += amount

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long nothing may be done, 0 while the rate is not above the quota."""
        over_ms = -self.left(quota, now_ms) * 1000 / quota
        return 0 if over_ms <= 0 else min(MAX_THROTTLE_MS, max(1, round(over_ms)))

    def allowance(self, quota: float, now_ms: int) -> float:
        """Return what may be done at once: what is left in the window, or a sample's share."""
        return max(self.left(quota, now_ms), quota * self._size_ms / 1000)

    def left(self, quota: float, now_ms: int) -> float:
        """Return what is left of the quota in the window; below 0 what was done too much."""
        self._drop_old(quota, now_ms)
        window_ms = now_ms - self._samples[0][0] if self._samples else self._size_ms
        return quota * window_ms / 1000 - self._sum

    def _drop_old(self, quota: float, now_ms: int) -> None:
        samples, kept_ms = self._samples, self._number * self._size_ms
        while samples and now_ms - samples[0][0] >= kept_ms:
            start_ms, amount = samples.popleft()
            end_ms = samples[0][0] if samples else now_ms
            self._sum -= amount
            above = amount - quota * (end_ms - start_ms) / 1000
            if above > 0:
                if not samples:
                    samples.append([now_ms, 0.0])
                samples[0][1] += above
                self._sum += above
        if not samples:
            # Sums of fractions drift.
            self._sum = 0.0
