"""The rate at which compaction reads and writes.

Invariant: all threads together move at most as many bytes as the setting allows, plus one second's
worth. The time of the work counts: a thread that moved a second's worth of bytes in half a second
waits for the other half. Each wait is short, so that a stop takes effect soon.
"""

import threading
import time
from collections.abc import Callable

_LONGEST_WAIT_S = 0.3
_CREDIT_S = 1.0


class Throttle:
    """Makes threads that move bytes wait.

    Args:
        bytes_per_s: the rate.
        clock: monotonic seconds.
        sleep: waits for seconds, in the calling thread.
    """

    def __init__(
        self,
        bytes_per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def take(self, count: int, check: Callable[[], None]) -> None:
        """Count bytes, and wait for as long as they take at the set rate.

        Args:
            count: bytes.
            check: called between waits; an error that it raises ends the wait.
        """
        with self._lock:
            earliest = self._clock() - _CREDIT_S
            self._free_at = max(self._free_at, earliest) + count / self.bytes_per_s
            until = self._free_at
        check()
        while (left := until - self._clock()) > 0:
            self._sleep(min(left, _LONGEST_WAIT_S))
            check()
