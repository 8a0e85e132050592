"""The console as its own process: it listens until a signal ends it."""

import logging
import os
import signal
import ssl
from collections.abc import Callable, Sequence

import gevent
import gevent.event

from zkbroker.console.access import ClusterSettings
from zkbroker.console.composition import Console
from zkbroker.console.settings import ConsoleSettings
from zkbroker.errors import ConfigError, ZkbrokerError
from zkbroker.network.server.pages import PageServer
from zkbroker.runtime import get_runtime

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 300
"""Streams and other requests of pages; further connections wait to be accepted."""


def serve(
    settings: ConsoleSettings,
    clusters: Sequence[ClusterSettings],
    host: str,
    port: int,
    on_ready: Callable[[int], object],
    contexts: Callable[[], ssl.SSLContext] | None = None,
) -> None:
    """Serve a console until SIGINT or SIGTERM; without TLS `contexts`, over plain HTTP.

    `on_ready` is called with the port once it listens.

    Raises:
        ConfigError: the address cannot be listened on, or a setting is not allowed.
    """
    stop = gevent.event.Event()
    handlers = [
        gevent.signal_handler(number, stop.set) for number in (signal.SIGINT, signal.SIGTERM)
    ]
    failures: list[ZkbrokerError] = []

    def run() -> None:
        # gevent prints an error that leaves a greenlet; this one is handled.
        try:
            console = Console(
                settings, clusters, get_runtime("gevent"), encrypted=contexts is not None
            )
            server = PageServer(
                host, port, console.application, max_connections=MAX_CONNECTIONS, contexts=contexts
            )
            _listen(server, host, port)
            try:
                console.start()
                on_ready(server.port)
                stop.wait()
            finally:
                console.close()
                server.stop()
        except ZkbrokerError as error:
            failures.append(error)

    try:
        gevent.spawn(run).join()
    finally:
        for handler in handlers:
            handler.cancel()
    if failures:
        raise failures[0]


def _listen(server: PageServer, host: str, port: int) -> None:
    try:
        server.start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: "
            f"{os.strerror(error.errno) if error.errno else error}; stop what uses the port, or "
            "give another --port"
        ) from error
