"""What a session asks of the server that it belongs to.

Invariant: a session knows this much of its server and no more, so that it can be played in tests.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from zkbroker.network.server.muting import Alarm
from zkbroker.network.server.request_memory import Account
from zkbroker.runtime.repeated_lines import RepeatedLines

if TYPE_CHECKING:
    from zkbroker.network.server.session import Session


class Slots(Protocol):
    """As many as requests may be worked on at once."""

    def acquire(self) -> object:
        """Take one; wait while there is none."""

    def release(self) -> object: ...


class Owner(Protocol):
    """What a session asks of its owner."""

    @property
    def stopping(self) -> bool:
        """Whether connections are to end after what has come."""

    @property
    def slots(self) -> Slots:
        """Of the requests that are worked on."""

    def open_account(self, address: str) -> Account:
        """Begin to count the memory of a large request."""

    def reserve_answer(self, wanted: int) -> int:
        """Set memory aside for an answer that is not on disk; returns how many bytes."""

    def release_answer(self, size: int) -> None: ...

    def alarm(self) -> Alarm:
        """Make what wakes a session that is muted."""

    @property
    def repeated(self) -> RepeatedLines:
        """Of the log lines that peers can cause as often as they like."""

    @property
    def sent(self) -> "Callable[[Session], object]":
        """Called when an answer has gone out."""
