"""The interface of a server to its sessions.

Invariant: a session uses no more of its server than this, so that tests can replace the server.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from zkbroker.network.server.muting import Alarm
from zkbroker.network.server.request_memory import Account
from zkbroker.runtime.repeated_lines import RepeatedLines

if TYPE_CHECKING:
    from zkbroker.network.server.session import Session


class Slots(Protocol):
    """The slots of requests that may be handled at once."""

    def acquire(self) -> object:
        """Take one; wait while there is none."""

    def release(self) -> object: ...


class Owner(Protocol):
    """The server, as a session sees it."""

    @property
    def stopping(self) -> bool:
        """Whether connections end after the requests that have come."""

    @property
    def slots(self) -> Slots:
        """For the requests being handled."""

    def open_account(self, address: str) -> Account:
        """Begin to count the memory of a large request."""

    def reserve_answer(self, wanted: int) -> int:
        """Reserve memory for an answer that is not on disk; return how many bytes."""

    def release_answer(self, size: int) -> None: ...

    def alarm(self) -> Alarm:
        """Make the event that wakes a muted session."""

    @property
    def repeated(self) -> RepeatedLines:
        """For log lines that peers can cause as often as they like."""

    @property
    def sent(self) -> "Callable[[Session], object]":
        """Called when an answer has gone out."""
