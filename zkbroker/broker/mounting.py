"""An application that is mounted on a broker's admin page, under its own path.

Invariant: the broker knows no such application; the process that starts the broker passes one in. A
request reaches it only after the page has authenticated its user.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from zkbroker.config.broker import BrokerConfig
from zkbroker.network.server.pages import StartResponse

USER = "zkbroker.user"
"""In the environment of a request: the user who logged in at the page; missing without logins."""


class Mounted(Protocol):
    """An application that is started and closed. Attributes: path begins and ends with a slash."""

    path: str

    def start(self) -> None:
        """Start: the broker serves now."""

    def close(self) -> None:
        """Stop: the broker is stopping."""

    def answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer a request below its path, as WSGI applications do."""


OwnPage = Callable[[str], dict[str, Any]]
"""Returns the content of `/summary` or `/clients` of this broker's page."""
Mount = Callable[[BrokerConfig, int, OwnPage], Mounted]
"""Creates an application from the broker's settings, its id, and its page."""
