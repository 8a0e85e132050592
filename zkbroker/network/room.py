"""Memory for requests that are on their way in, shared by all connections of a server.

Invariant: what is taken never exceeds the limit, unless one request alone is larger than it. Who
waits is served in the order of arrival, so that no request waits for ever because it is large; who
waits does not read, and that is the backpressure.
"""

from collections import deque

import gevent.event


class Room:
    """Counts bytes of requests against a limit.

    Args:
        limit_bytes: how many may be taken at once; -1 for any number.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._waiting: deque[tuple[int, gevent.event.Event]] = deque()
        self.taken = 0
        """Bytes that are taken now."""

    @property
    def full(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def take(self, size: int) -> None:
        """Take `size` bytes, waiting in turn until they are there."""
        if not self._waiting and self._fits(size):
            self.taken += size
            return
        turn = (size, gevent.event.Event())
        self._waiting.append(turn)
        try:
            turn[1].wait()
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._admit()
            else:
                self.give_back(size)
            raise

    def give_back(self, size: int) -> None:
        """Give back what `take` took."""
        self.taken -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self.taken += size
            turn.set()

    def _fits(self, size: int) -> bool:
        return self._limit < 0 or not self.taken or self.taken + size <= self._limit
