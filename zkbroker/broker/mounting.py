"""An application that is shown on a broker's admin page, under a path of its own.

Invariant: the broker knows no such application; the process that starts it hands one in. A request
comes to it once the page has let its user in.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from zkbroker.config.broker import BrokerConfig
from zkbroker.network.server.pages import StartResponse

USER = "zkbroker.user"
"""In the environment of a request: the user that logged in at the page; missing without logins."""


class Mounted(Protocol):
    """An application with a life of its own. Attributes: path begins with a slash and ends so."""

    path: str

    def start(self) -> None:
        """Begin: the broker serves."""

    def close(self) -> None:
        """End: the broker stops."""

    def answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer a request below its path, as WSGI applications do."""


OwnPage = Callable[[str], dict[str, Any]]
"""Returns what `/summary` or `/clients` of this broker's page says."""
Mount = Callable[[BrokerConfig, int, OwnPage], Mounted]
"""Makes one from the broker's settings, its id, and its page."""
