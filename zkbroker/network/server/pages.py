"""An HTTP server for pages of people and programs, on the event loop of this process.

Invariant: a peer that is slow to send a request or to take its answer is disconnected, so that
others get in; only an application that says so may take longer (`TAKE_TIME`). What a peer did wrong
is a DEBUG line, never a traceback: anybody can send half a request, often.
"""

import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from http.client import HTTPException
from typing import Any

import gevent
import gevent.ssl
from gevent.pywsgi import WSGIHandler, WSGIServer

logger = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Application = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

TAKE_TIME = "zkbroker.take_time"
"""In the environment of a request: called by an application whose answer is a stream."""

_STOP_TIMEOUT_S = 1
_EXCHANGE_TIMEOUT_S = 30
"""For a peer to send its request and to take its page."""


class _Handler(WSGIHandler):  # type: ignore[misc]
    """Answers what cannot be an HTTP request with 400."""

    ignored_socket_errors = (*WSGIHandler.ignored_socket_errors, errno.EBADF)
    """Hanging up is no failure of the page."""

    _deadline: Any = None

    def handle(self) -> None:
        try:
            super().handle()
        except OSError as error:
            self.log_error("peer %s left: %s", self.client_address, error)

    def handle_one_request(self) -> Any:
        self._deadline = gevent.spawn_later(_EXCHANGE_TIMEOUT_S, _hang_up, self.socket)
        try:
            return super().handle_one_request()
        finally:
            self._deadline.kill(block=False)

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        deadline = self._deadline
        environ[TAKE_TIME] = lambda: deadline.kill(block=False)
        return environ

    def read_request(self, raw_requestline: str) -> bool:
        try:
            return bool(super().read_request(raw_requestline))
        except HTTPException as error:
            # More than 100 headers, or one of more than 64 KiB.
            raise ValueError(f"the request cannot be read: {error}") from None

    def _handle_client_error(self, ex: Exception) -> tuple[str, bytes] | None:
        if isinstance(ex, OSError):
            # No client is left to answer; without a result the connection is closed.
            self.log_error("peer %s left within a request: %s", self.client_address, ex)
            return None
        answer: tuple[str, bytes] = super()._handle_client_error(ex)
        return answer

    def log_error(self, msg: str, *args: object) -> None:
        logger.debug("page: %s", msg % args if args else msg)


class _Contexts:
    """Wraps sockets as gevent's servers ask for it, each with the context of its time."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context

    def wrap_socket(self, connection: Any, **options: Any) -> Any:
        # As a context of gevent's own would do it.
        return gevent.ssl.SSLSocket(sock=connection, _context=self._context(), **options)


class _Server(WSGIServer):  # type: ignore[misc]
    """A server of which a failed handshake is a DEBUG line, and one that takes long is cut."""

    def wrap_socket_and_handle(self, client_socket: Any, address: Any) -> None:
        try:
            with gevent.Timeout(_EXCHANGE_TIMEOUT_S, OSError("no TLS handshake in time")):
                encrypted = self.wrap_socket(client_socket, **self.ssl_args)
        except OSError as error:
            logger.debug("page: peer %s left: %s", address, error)
            return
        with contextlib.closing(encrypted):
            self.handle(encrypted, address)


def _hang_up(peer: Any) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


class PageServer:
    """Serves an application over HTTP or HTTPS.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        application: answers requests (WSGI).
        max_connections: more wait to be accepted.
        contexts: of TLS, for each connection as its files are then; None for plain HTTP.
    """

    def __init__(
        self,
        host: str,
        port: int,
        application: Application,
        *,
        max_connections: int,
        contexts: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        encrypted = {} if contexts is None else {"ssl_context": _Contexts(contexts)}
        self._server = _Server(
            (host, port),
            application,
            log=None,
            error_log=logger,
            handler_class=_Handler,
            spawn=max_connections,
            **encrypted,
        )

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self._server.server_port)

    def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server.start()

    def stop(self) -> None:
        """Stop listening, and hang up."""
        self._server.stop(_STOP_TIMEOUT_S)
