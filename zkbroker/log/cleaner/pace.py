"""Rests of compaction between pieces of work.

Invariant: a thread that compacts in a broker sleeps for a moment after every 0.3 ms of work.
Otherwise it would work for seconds on end, and with few processors requests of clients would wait
for it: a thread that wakes up runs only when the running one sleeps, or at the end of its time
slice of some 3 ms.
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
        """Rest, if it is time; to be called after every small piece of work."""
        # Another thread, with its own clock, may have done the part of the pass before this.
        if not 0 <= self._clock() - self._rested_at < _WORK_S:
            self._sleep(_REST_S)
            self._rested_at = self._clock()
