"""Looking for a connection's next request for some microseconds before the hub sleeps.

A client that waits for each answer sends its next request within microseconds. To put the process
to sleep and wake it takes longer than that: on a virtual machine, longer than the request itself.
Linux does the same for network cards (`net.core.busy_poll`), Seastar for its reactors.

Invariant: nothing else waits for it. It ends as soon as a callback of the hub or another connection
is due. It does not extend the turn of a connection: timers and the results of other threads, which
it does not see, are due at the latest when `HubStream.pace` ends that turn. A connection whose
request did not come in time is not polled for a millisecond, then for two, four, ... up to a
second: one that never sends at once costs next to nothing. While the hub has other work, nothing is
polled.
"""

import os
import select
import time

from gevent.hub import Hub

_FIRST_REST_S = 0.001
_LONGEST_REST_S = 1.0


class HubEvents:
    """What is due on a hub.

    Args:
        hub: the hub, on an event loop that uses epoll.
    """

    def __init__(self, hub: Hub) -> None:
        self.fd = hub.loop.fileno()
        """The event loop's own epoll descriptor; readable while an event is due."""
        # The object closes its descriptor when it goes.
        self._epoll = select.epoll.fromfd(os.dup(self.fd))
        self.callbacks = hub.loop._callbacks
        """True while a callback is due."""
        self.busy_until = 0.0
        """Until when nothing is polled, on the monotonic clock: a hub with other work does not
        sleep."""

    @staticmethod
    def known(hub: Hub) -> bool:
        """Whether the events of a hub can be asked for: libev's loops on epoll have them."""
        return hub.loop.backend == "epoll" and hasattr(hub.loop, "_callbacks")

    def due_besides(self, fd: int) -> bool:
        """Whether an event is due that is not one of this descriptor."""
        return any(ready != fd for ready, _ in self._epoll.poll(0, 2))


class BusyPoll:
    """The polling of one connection.

    Args:
        fd: the connection's descriptor.
        events: of the hub that it waits on.
        limit_s: how long to poll, in seconds.
    """

    __slots__ = ("_events", "_fd", "_limit_s", "_poll", "_rest_s", "rests_until")

    def __init__(self, fd: int, events: HubEvents, limit_s: float) -> None:
        self._fd = fd
        self._events = events
        self._limit_s = limit_s
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.register(events.fd, select.POLLIN)
        self._poll = poller.poll
        self.rests_until = 0.0
        """Until when not to call `ready`, on the monotonic clock."""
        self._rest_s = _FIRST_REST_S

    def ready(self, now: float) -> bool:
        """Poll; return whether the connection can be read and nothing else is due.

        Args:
            now: the monotonic clock, some microseconds ago at most.
        """
        events, poll = self._events, self._poll
        if now < events.busy_until:
            return False
        until = now + self._limit_s
        while not (found := poll(0)):
            now = time.monotonic()
            if now > until:
                self.rests_until = now + self._rest_s
                self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
                return False
            if events.callbacks:
                break
        if found and found[0][0] == self._fd:
            self._rest_s = _FIRST_REST_S
            if not events.callbacks and not events.due_besides(self._fd):
                return True
        events.busy_until = now + _FIRST_REST_S
        return False
