"""The HTTP page of a broker: metrics in Prometheus form, and the API versions of its clients.

    GET /metrics         Prometheus text format
    GET /clients         the form of `client-versions.json`
    GET /summary         a few totals of this broker, of constant size
    GET /health          200 while it is alive, 503 if a restart is needed
    GET /ready           200 while it can serve clients, else 503 with the reasons

Invariant: if users are configured, nothing is answered without a login, not even which pages exist,
except one word for probes, which have no password: whether the broker is alive, and whether it is
ready.
"""

import json
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from gevent.lock import BoundedSemaphore
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from zkbroker.broker.admin_access import (
    REALM,
    WINDOW_S,
    AccessDecision,
    AdminAccess,
    credentials_of,
)
from zkbroker.broker.exposition import BrokerCollector
from zkbroker.broker.health import STARTING, not_alive, not_ready, troubles
from zkbroker.broker.mounting import USER, Mounted
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.state_exposition import StateCollector
from zkbroker.broker.summary import summary
from zkbroker.coordinator.groups.metrics import GroupMetrics
from zkbroker.coordinator.transactions.counts import TransactionFigures
from zkbroker.network.server.metrics import ServerMetrics
from zkbroker.network.server.pages import PageServer, StartResponse
from zkbroker.runtime.greenlets import yield_turn

logger = logging.getLogger(__name__)

_MAX_CONNECTIONS = 32
"""Connections beyond this wait to be accepted: a page takes some hundred KiB until it is sent."""
_MAX_MOUNTED_CONNECTIONS = 200
"""With an application mounted, whose streams stay open."""

_PAGES = b"see /metrics, /clients, /summary, /health, /ready\n"
_PROBES: dict[str, tuple[Callable[[BrokerServices | None], list[str]], str]] = {
    "/health": (not_alive, "alive"),
    "/ready": (not_ready, "ready"),
}
"""Path → a function that returns the problems, and the answer if there are none."""


class MetricsPage:
    """Serves the page over HTTP on the event loop of the broker.

    Invariant: the port is bound before the broker is registered anywhere. Before the broker has
    started, and again when it stops, every request is answered with 503.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        access: decides which users may see it; None for no login.
        contexts: returns a TLS context for each connection, from the present files; None for plain
            HTTP.
        mounting: whether an application will be mounted.
    """

    def __init__(
        self,
        host: str,
        port: int,
        access: AdminAccess | None = None,
        contexts: Callable[[], ssl.SSLContext] | None = None,
        *,
        mounting: bool = False,
    ) -> None:
        self._mounted: Mounted | None = None
        self._access = access
        self._services: BrokerServices | None = None
        self._server_figures: Callable[[], ServerMetrics] | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._server = PageServer(
            host,
            port,
            self._answer,
            max_connections=_MAX_MOUNTED_CONNECTIONS if mounting else _MAX_CONNECTIONS,
            contexts=contexts,
        )
        self._making = BoundedSemaphore(1)

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._server.port

    def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server.start()

    def show(
        self,
        services: BrokerServices,
        *,
        transactions: Callable[[], TransactionFigures],
        server: Callable[[], ServerMetrics],
        groups: Callable[[int], GroupMetrics],
    ) -> None:
        """Begin to show a running broker, with the metrics of its parts."""
        self._registry.register(BrokerCollector(services, transactions))
        self._registry.register(StateCollector(services, server, groups))
        self._services = services
        self._server_figures = server
        logger.info("metrics served port=%d", self.port)

    def mount(self, application: Mounted) -> None:
        """Show an application under its path; it is started, and closed with the page."""
        application.start()
        self._mounted = application

    def hide(self) -> None:
        """Show nothing any more: the broker is being stopped."""
        self._services = None
        mounted, self._mounted = self._mounted, None
        if mounted is not None:
            mounted.close()

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop()

    def json(self, path: str) -> dict[str, Any]:
        """Return the content of `/summary` or `/clients`; empty while no broker is shown."""
        services, server = self._services, self._server_figures
        if services is None or server is None:
            return {}
        return summary(services, server()) if path == "/summary" else services.clients.snapshot()

    def _answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        method = environ.get("REQUEST_METHOD", "GET")
        path = environ.get("PATH_INFO", "/")
        anonymous = self._access is not None and "HTTP_AUTHORIZATION" not in environ
        probed = path in _PROBES and method in ("GET", "HEAD")
        refused = None if anonymous and probed else self._refusal(environ)
        more: list[tuple[str, str]] = []
        if refused is None and probed:
            content_type = "text/plain"
            status, body = self._probe(path, in_words=not anonymous)
        elif refused is None and self._mounted is not None and path.startswith(self._mounted.path):
            return self._mounted.answer(_below(environ, self._mounted.path), start)
        elif refused is None:
            status, content_type, body = self._page(method, path)
        else:
            status, more, body = refused
            content_type = "text/plain"
        start(
            status,
            [
                ("Content-Type", content_type),
                ("Content-Length", str(len(body))),
                # The next request gets its own deadline.
                ("Connection", "close"),
                *more,
            ],
        )
        return [] if method == "HEAD" else [body]

    def _refusal(self, environ: dict[str, str]) -> tuple[str, list[tuple[str, str]], bytes] | None:
        """Return status, headers and body of a refusal; None if the user may see the page."""
        if self._access is None:
            return None
        access = self._access.check(
            environ.get("HTTP_AUTHORIZATION"), environ.get("REMOTE_ADDR", "")
        )
        if access is AccessDecision.GRANTED:
            return None
        if access is AccessDecision.TOO_MANY:
            again = [("Retry-After", f"{WINDOW_S:.0f}")]
            return "429 Too Many Requests", again, b"too many wrong passwords; wait a minute\n"
        realm = [("WWW-Authenticate", f'Basic realm="{REALM}", charset="UTF-8"')]
        return "401 Unauthorized", realm, b"a user of admin.users.file is needed\n"

    def _probe(self, path: str, *, in_words: bool) -> tuple[str, bytes]:
        """Return status and body of a probe; without `in_words` the body is one word."""
        check, word = _PROBES[path]
        reasons = check(self._services)
        lines = [f"not {word}" if reasons else word]
        if in_words:
            yield_turn()
            lines += [*reasons, *(troubles(self._services) if path == "/health" else ())]
        status = "503 Service Unavailable" if reasons else "200 OK"
        return status, ("\n".join(lines) + "\n").encode()

    def _page(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET and HEAD\n"
        if path not in ("/metrics", "/clients", "/summary"):
            return "404 Not Found", "text/plain", _PAGES
        if path == "/metrics":
            with self._making:
                # One family at a time; other tasks get their turn in between.
                yield_turn()
                if self._services is not None:
                    return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        elif self._services is not None:
            return "200 OK", "application/json", json.dumps(self.json(path)).encode()
        return "503 Service Unavailable", "text/plain", f"{STARTING}\n".encode()


def _below(environ: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the environment of a request for an application that is mounted under a path."""
    below = "/" + environ["PATH_INFO"].removeprefix(path)
    inner = {**environ, "SCRIPT_NAME": path.rstrip("/"), "PATH_INFO": below}
    authorization = environ.get("HTTP_AUTHORIZATION")
    credentials = None if authorization is None else credentials_of(authorization)
    if credentials is not None:
        inner[USER] = credentials[0]
    return inner
