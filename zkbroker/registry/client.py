"""The ZooKeeper client, made to wait nowhere for longer than a session can bear.

Three of its habits would cost a session, or stop every task of a gevent hub, and are changed here:
it connects to one address for as long as the session timeout, which leaves no time for the next
one; under gevent it resolves names in the hub; and it keeps to itself which session timeout the
server granted. The last two reach into the client and do nothing if it is built otherwise. Its
lines on each attempt to connect, a dozen a second while ZooKeeper is away, are for debugging: what
becomes of a session is told by `zkbroker.registry.connection`.
"""

import importlib
import logging
from collections.abc import Callable
from typing import Any

import kazoo.exceptions as kz
from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 0.5
ATTEMPTS_PER_TIMEOUT = 3


def new_client(
    hosts: str,
    session_timeout_s: float,
    runtime: Runtime,
    on_granted: Callable[[float], object],
) -> Any:
    """Make a client that is not started yet.

    Args:
        hosts: `host:port,host:port`.
        session_timeout_s: the session timeout to ask for.
        runtime: what its tasks run on.
        on_granted: called from the client's task with the session timeout that the server granted.

    Raises:
        ValueError: the addresses cannot be read.
    """
    handler = _handler(runtime, session_timeout_s / ATTEMPTS_PER_TIMEOUT)
    # The client's own default doubles the delay between attempts up to an hour.
    forever = KazooRetry(
        max_tries=-1,
        delay=RECONNECT_FIRST_S,
        max_delay=RECONNECT_MAX_S,
        sleep_func=handler.sleep_func,
    )
    # The client waits for the answer to a connection for its session timeout divided by the number
    # of addresses. A server that has just started may accept one and never answer it.
    addresses = hosts.split(",")
    repeated = addresses * (1 if len(addresses) >= ATTEMPTS_PER_TIMEOUT else ATTEMPTS_PER_TIMEOUT)
    client = KazooClient(
        hosts=",".join(repeated),
        timeout=session_timeout_s,
        handler=handler,
        connection_retry=forever,
        logger=_Murmur(logger, {}),
    )
    _adapt(client, runtime, on_granted)
    return client


class _Murmur(logging.LoggerAdapter[logging.Logger]):
    """Lowers what the client says of the course of things to DEBUG."""

    _TOLD = ("Cannot resolve", "AUTH_FAILED")

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        if level < logging.ERROR and not str(msg).startswith(self._TOLD):
            level = min(level, logging.DEBUG)
        super().log(level, msg, *args, **options)


def _handler(runtime: Runtime, longest_s: float) -> Any:
    module, name = {
        "gevent": ("kazoo.handlers.gevent", "SequentialGeventHandler"),
        "threads": ("kazoo.handlers.threading", "SequentialThreadingHandler"),
    }[runtime.name]
    # Imported when asked for: a user of threads need not pay for gevent.
    base: Any = getattr(importlib.import_module(module), name)

    class Handler(base):  # type: ignore[misc] # which one is known at run time only
        def create_connection(self, *args: Any, **options: Any) -> Any:
            options["timeout"] = min(options.get("timeout") or longest_s, longest_s)
            return super().create_connection(*args, **options)

    return Handler()


def _adapt(client: Any, runtime: Runtime, on_granted: Callable[[float], object]) -> None:
    connection: Any = getattr(client, "_connection", None)
    resolve = getattr(connection, "_expand_client_hosts", None)
    connect = getattr(connection, "_connect", None)
    if resolve is not None:
        connection._expand_client_hosts = lambda: runtime.offload(resolve)
    if connect is not None:

        def connected(*args: Any) -> Any:
            answer = connect(*args)
            # It reads with two thirds of what was granted, in milliseconds.
            on_granted(answer[0] * 1.5 / 1000)
            return answer

        connection._connect = connected


def end_client(client: Any) -> None:
    """End a client's session and free what it holds."""
    try:
        client.stop()
        client.close()
    except (kz.KazooException, OSError) as error:
        # The server expires the session by itself; only the sockets of one attempt to connect are
        # left over, until that attempt ends.
        logger.warning("session end unconfirmed error=%s", error)
