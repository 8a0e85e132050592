"""The pause of a muted connection: its requests stay unread in the socket.

Invariant: a pause ends when its time is over, when it is ended early, or with the connection. It
holds no request slot and no memory of requests.
"""

import gevent.event


class Mute:
    """The pauses of one connection."""

    __slots__ = ("_alarm", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """For how long nothing is read after the answer to this request; a handler sets it."""
        self._alarm: gevent.event.Event | None = None

    @property
    def on(self) -> bool:
        """Whether the connection is muted now."""
        return self._alarm is not None

    def pause(self) -> None:
        """Wait for `seconds`, and set it back to 0."""
        seconds, self.seconds = self.seconds, 0.0
        self._alarm = gevent.event.Event()
        try:
            self._alarm.wait(seconds)
        finally:
            self._alarm = None

    def end(self) -> None:
        """End a pause, from another greenlet; one that has not begun yet does not begin."""
        self.seconds = 0.0
        if self._alarm is not None:
            self._alarm.set()
