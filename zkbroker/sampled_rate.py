"""A rate over a sliding window of samples, and the throttle time that its quota requires.

    samples   | (empty) | 0        | 1        | …        | 10 (filling)
              oldest start <------- window -------> now

    rate      sum of the samples / window
    throttle  (rate - quota) / quota * window = sum / quota - window

Invariant: at most `number` samples of `size_ms` are kept. When the oldest one is dropped, its
excess over the quota is carried into the next one: unused quota is forgotten, but excess is not.
One empty sample precedes a client's first, and earlier time gives no credit. In any period a client
therefore gets the quota of that period, and little more than that of one sample and one request.

Genuine brokers count ten empty samples before the first one, so that a client gets the quota of ten
seconds at once, and they forget the excess, too.
"""

from collections import deque

MAX_THROTTLE_MS = 2**31 - 1
"""The largest value of the field in an answer."""


class SampledRate:
    """The amounts of the last samples.

    Args:
        number: the most samples that are kept.
        size_ms: length of a sample.
    """

    __slots__ = ("_number", "_samples", "_size_ms", "_sum")

    def __init__(self, number: int, size_ms: int) -> None:
        self._number = number
        self._size_ms = size_ms
        self._samples: deque[list[float]] = deque()
        self._sum = 0.0

    def record(self, amount: float, quota: float, now_ms: int) -> None:
        """Add an amount to the present sample.

        Args:
            amount: how much to add.
            quota: per second, above 0.
            now_ms: the time of a clock that never goes back.
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
        """Return how long the client must pause, 0 while the rate is not above the quota."""
        over_ms = -self.left(quota, now_ms) * 1000 / quota
        return 0 if over_ms <= 0 else min(MAX_THROTTLE_MS, max(1, round(over_ms)))

    def allowance(self, quota: float, now_ms: int) -> float:
        """Return the amount allowed at once: the rest of the quota, at least one sample's."""
        return max(self.left(quota, now_ms), quota * self._size_ms / 1000)

    def left(self, quota: float, now_ms: int) -> float:
        """Return the rest of the window's quota; a negative value is an excess."""
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
            # Removes the rounding errors of a sum of fractions.
            self._sum = 0.0
