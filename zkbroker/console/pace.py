"""The pace of repeated questions, so that they stay a small share of the brokers' work.

Invariant: after a question that took `t` seconds, the next one comes `t / SHARE` seconds later at
    the earliest, so a large cluster is read less often.
"""

SHARE = 1 / 200
"""The largest share of time for one kind of question."""
MOST_MS = 120_000
"""Longest pause: one slow answer does not stop questions for hours."""
HURRIED_SHARE = 1 / 20
"""The share while changes keep coming."""


class QuestionPace:
    """The pace of one kind of question, with at least `every_s` seconds between two."""

    def __init__(self, every_s: float) -> None:
        self._every_ms = every_s * 1000
        self._next_ms = 0.0
        self._soonest_ms = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether to ask now."""
        return now_ms >= self._next_ms

    def done(self, now_ms: float, took_ms: float) -> None:
        """Record a question and how long it took."""
        self._next_ms = now_ms + max(self._every_ms, min(took_ms / SHARE, MOST_MS))
        self._soonest_ms = now_ms + took_ms / HURRIED_SHARE

    def hurry(self) -> None:
        """Ask again soon, since something changed."""
        self._next_ms = self._soonest_ms
