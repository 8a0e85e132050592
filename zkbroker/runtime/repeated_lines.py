"""Limits repeated log lines: one of a kind in each period, with the number left out.

Invariant: no line is left out silently: the next line of its kind tells how many were. The number
of remembered kinds is bounded.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

PERIOD_S = 60.0
MAX_KINDS = 1000


class RepeatedLines:
    """Decides which of many equal log lines are written.

    Args:
        period_s: seconds in which one line of a kind is written.
        max_kinds: how many kinds are remembered; the oldest is dropped for a new one.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        period_s: float = PERIOD_S,
        *,
        max_kinds: int = MAX_KINDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._period_s = period_s
        self._max_kinds = max_kinds
        self._clock = clock
        self._kinds: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def admit(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were left out; None to leave this one out as well."""
        now = self._clock()
        written_at, left_out = self._kinds.get(kind, (float("-inf"), 0))
        if now - written_at < self._period_s:
            self._kinds[kind] = written_at, left_out + 1
            return None
        self._kinds[kind] = now, 0
        self._kinds.move_to_end(kind)
        if len(self._kinds) > self._max_kinds:
            self._kinds.popitem(last=False)
        return left_out
