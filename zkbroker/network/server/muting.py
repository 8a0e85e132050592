"""The pause of a connection that is muted: requests that come wait where they are.

Invariant: a pause ends when its time is over, or with the connection; it holds no request slot and
no memory of requests.
"""

from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """Ends a wait early; an event."""

    def set(self) -> object: ...
    def wait(self, timeout: float) -> object: ...


class Mute:
    """The pauses of one connection.

    Args:
        alarm: makes what ends a pause early.
    """

    __slots__ = ("_alarm", "_make_alarm", "seconds")

    def __init__(self, alarm: Callable[[], Alarm]) -> None:
        self.seconds = 0.0
        """How long nothing is read after the answer to this request; a handler sets it."""
        self._make_alarm = alarm
        self._alarm: Alarm | None = None

    @property
    def on(self) -> bool:
        """Whether the connection is muted now."""
        return self._alarm is not None

    def pause(self) -> None:
        """Wait for `seconds`, once."""
        seconds, self.seconds = self.seconds, 0.0
        self._alarm = self._make_alarm()
        try:
            self._alarm.wait(seconds)
        finally:
            self._alarm = None

    def end(self) -> None:
        """End a pause, from another greenlet."""
        if self._alarm is not None:
            self._alarm.set()
