"""Rests of compaction between pieces of work.

Invariant: a thread that compacts in a broker yields its processor for a moment after every 0.3 ms
of work. Otherwise it would work for seconds on end, and on a machine with few processors client
requests would wait for it: a woken thread runs only once the running one sleeps, or has used up its
time slice of some 3 ms.
"""

import time
from collections.abc import Callable

_WORK_S = 0.0003
_REST_S = 0.0001


class Pace:
    """Makes a working thread rest now and then.

    Args:
        clock: seconds of CPU time of the calling thread; waits do not count.
        sleep: waits for seconds, in the thread that calls.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._rested_at = clock()

    def rest(self) -> None:
        """Rest if it is time to; to be called after every small piece of work."""
        # Another thread, which has a clock of its own, may have done an earlier part of the pass.
        if not 0 <= self._clock() - self._rested_at < _WORK_S:
            self._sleep(_REST_S)
            self._rested_at = self._clock()
