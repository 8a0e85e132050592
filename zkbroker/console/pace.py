"""When something is asked again, so that asking stays a small share of what brokers do.

Invariant: after a question that took `t` seconds, the next one comes `t / SHARE` seconds later at
the earliest: a large cluster is looked at less often, by itself.
"""

SHARE = 1 / 200
"""The share of the time in which one question may be under way."""
MOST_MS = 120_000
"""Nothing is asked less often: a broker that is slow for a moment is not left alone for hours."""
HURRIED_SHARE = 1 / 20
"""That share while one thing after the other changes."""


class Pace:
    """The pace of one kind of question.

    Args:
        every_s: between two questions at least.
    """

    def __init__(self, every_s: float) -> None:
        self._every_ms = every_s * 1000
        self._next_ms = 0.0
        self._soonest_ms = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether to ask now."""
        return now_ms >= self._next_ms

    def done(self, now_ms: float, took_ms: float) -> None:
        """Note that it was asked, and how long that took."""
        self._next_ms = now_ms + max(self._every_ms, min(took_ms / SHARE, MOST_MS))
        self._soonest_ms = now_ms + took_ms / HURRIED_SHARE

    def hurry(self) -> None:
        """Have it asked soon, since something changed."""
        self._next_ms = self._soonest_ms
