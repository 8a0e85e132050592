"""The interface of a server towards its sessions.

Invariant: a session uses nothing else of its server, so that tests can replace the server.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from zkbroker.network.server.muting import Alarm
from zkbroker.network.server.request_memory import Account
from zkbroker.runtime.repeated_lines import RepeatedLines

if TYPE_CHECKING:
    from zkbroker.network.server.session import Session


class Slots(Protocol):
    """The request slots: one for each request that may be handled at once."""

    def acquire(self) -> object:
        """Take a slot; wait while there is none."""

    def release(self) -> object: ...


class Owner(Protocol):
    """A server, as its sessions see it."""

    @property
    def stopping(self) -> bool:
        """Whether connections must end after the requests that have arrived."""

    @property
    def slots(self) -> Slots:
        """The request slots."""

    def open_account(self, address: str) -> Account:
        """Begin to count the memory of a large request."""

    def reserve_answer(self, wanted: int) -> int:
        """Reserve memory for an answer that is not sent from files; return how many bytes."""

    def release_answer(self, size: int) -> None: ...

    def alarm(self) -> Alarm:
        """Make the event that wakes a muted session."""

    @property
    def repeated(self) -> RepeatedLines:
        """Limits the log lines that peers can cause as often as they like."""

    @property
    def sent(self) -> "Callable[[Session], object]":
        """Called when an answer has been sent."""
