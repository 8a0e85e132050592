"""The ZooKeeper client: kazoo's, with the connection that zkbroker needs.

`Client` and `Connector` are subclasses of kazoo's client and of its connection. They change kazoo's
behaviour in eight points; without any of the first five a broker could stop or lose its session:

- A request wakes the connection with a byte in a pair of sockets. Kazoo waits while the pair is
  full, fails under gevent when two requests wait, and sends one request for each byte: after an
  outage with more requests than the pair holds bytes, every request leaves that many requests late,
  for ever. Here a wake-up never waits, a full pair is a wake-up too, and one wake-up sends the
  whole queue.
- A request that waited in the queue for longer than its time-out is dropped instead of being sent.
- One address is tried for only a part of the session timeout, so that the next has its turn.
- Names are resolved outside the gevent hub, where that would block every task.
- The session timeout that the server granted is reported.
- A connection is reported only when its login is complete; a later connection that breaks during
  its login, or is refused, is retried.
- There is no wait for a socket that can be read or written at once.
- Waiting requests are written together, and received answers are read together: a controller of
  thousands of partitions sends one request for each of them.

Invariant: `RELIED_ON` names the methods of kazoo that are overridden or used beyond its public
interface; a kazoo with other ones is refused before a client is made.
"""

import inspect
import logging
from collections.abc import Callable
from typing import Any

import kazoo.exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry
from kazoo.version import __version__ as kazoo_version

from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.runtime import Runtime
from zkbroker.zookeeper.connector import Connector
from zkbroker.zookeeper.handlers import new_handler
from zkbroker.zookeeper.login import ZkLoginGate, login_options

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 0.5
ATTEMPTS_PER_TIMEOUT = 3
RELIED_ON: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (ConnectionHandler, "__init__", ("self", "client", "retry_sleeper", "logger", "sasl_options")),
    (ConnectionHandler, "_send_request", ("self", "read_timeout", "connect_timeout")),
    (ConnectionHandler, "_submit", ("self", "request", "timeout", "xid")),
    (ConnectionHandler, "_read_socket", ("self", "read_timeout")),
    (ConnectionHandler, "_read", ("self", "length", "timeout")),
    (ConnectionHandler, "_write", ("self", "msg", "timeout")),
    (ConnectionHandler, "_connect", ("self", "host", "hostip", "port")),
    (ConnectionHandler, "_expand_client_hosts", ("self",)),
    (KazooClient, "start_async", ("self",)),
    (KazooClient, "_session_callback", ("self", "state")),
)
"""Methods of kazoo that are overridden or called, with their parameters."""

RELIED_ON_FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("client", ("_connection", "_conn_retry", "_queue", "connected", "chroot", "client_id")),
    ("connection", ("_read_sock", "_write_sock")),
)
"""The fields that a client and its connection must have."""


def new_client(
    hosts: str,
    session_timeout_s: float,
    runtime: Runtime,
    on_granted: Callable[[float], object],
    request_timeout_s: float,
    security: ZooKeeperSecurity = UNPROTECTED,
    on_refused: Callable[[str], object] = lambda _: None,
) -> "Client":
    """Make a client that is not started yet.

    Args:
        hosts: `host:port,host:port`.
        session_timeout_s: the requested session timeout.
        runtime: threads or gevent, for its tasks.
        on_granted: called from the client's task with the session timeout that the server granted.
        request_timeout_s: how long a request may wait to be sent.
        security: the login.
        on_refused: called from the client's task with the reason when the first login is refused;
            the client then ends.

    Raises:
        ValueError: the addresses cannot be read.
        RegistryError: the installed kazoo lacks something that this module needs, or a library for
            the login is missing.
        ConfigError: the files for TLS cannot be used.
    """
    require_kazoo()
    handler = new_handler(runtime, session_timeout_s / ATTEMPTS_PER_TIMEOUT, security.tls)
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
    return Client(
        runtime=runtime,
        on_granted=on_granted,
        request_timeout_s=request_timeout_s,
        gate=ZkLoginGate(security, hosts, on_refused),
        hosts=",".join(repeated),
        timeout=session_timeout_s,
        handler=handler,
        connection_retry=forever,
        logger=_QuietLogger(logger, {}),
        **login_options(security),
    )


def require_kazoo() -> None:
    """Check that kazoo has the methods that are overridden here.

    Raises:
        RegistryError: one is missing or differs, so that overriding it would have no effect.
    """
    for owner, name, parameters in RELIED_ON:
        method = getattr(owner, name, None)
        found = () if method is None else tuple(inspect.signature(method).parameters)
        if found != parameters:
            raise _unknown_kazoo(f"{owner.__name__}.{name}({', '.join(parameters)})")


def _unknown_kazoo(missing: str) -> RegistryError:
    return RegistryError(
        f"kazoo {kazoo_version} has no {missing}, which the ZooKeeper session builds on: "
        "pip install 'kazoo>=2.10,<3'"
    )


class Client(KazooClient):  # type: ignore[misc] # kazoo is not typed
    """Kazoo's client with a `Connector` as its connection.

    Args:
        runtime: resolves names.
        on_granted: called with the granted session timeout, in seconds, at every connection.
        request_timeout_s: how long a request may wait to be sent.
        gate: holds back the report of a connection until its login is complete.
        options: of kazoo's client.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        on_granted: Callable[[float], object],
        request_timeout_s: float,
        gate: ZkLoginGate,
        **options: Any,
    ) -> None:
        self.gate = gate
        super().__init__(**options)
        self._connection = Connector(
            self,
            self._conn_retry.copy(),
            runtime=runtime,
            on_granted=on_granted,
            request_timeout_s=request_timeout_s,
            gate=gate,
            sasl_options=options.get("sasl_options"),
            logger=self.logger,
        )
        for which, names in RELIED_ON_FIELDS:
            owner = self if which == "client" else self._connection
            for name in names:
                if not hasattr(owner, name):
                    raise _unknown_kazoo(f"{type(owner).__mro__[1].__name__}.{name}")

    def _session_callback(self, state: Any) -> None:
        if self.gate.passes(state):
            super()._session_callback(state)


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Lowers kazoo's lines on each attempt to connect, a dozen a second in an outage, to DEBUG.

    `zkbroker.zookeeper.connection` logs the states of a session. Of requests and answers only the
    kind and the path are shown, since they may hold passwords and data of users.
    """

    _NOT_LOWERED = ("Cannot resolve", "AUTH_FAILED")

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        if level < logging.ERROR and not str(msg).startswith(self._NOT_LOWERED):
            level = min(level, logging.DEBUG)
        # Checked early: kazoo has several lines for every request, which are rarely enabled.
        if not self.isEnabledFor(level):
            return
        super().log(level, msg, *map(_without_data, args), **options)


def _without_data(argument: object) -> object:
    # Requests and answers of the protocol are tuples, or hold bytes.
    if isinstance(argument, tuple):
        path = getattr(argument, "path", "")
        return f"{type(argument).__name__} {path}".rstrip()
    return f"{len(argument)} bytes" if isinstance(argument, bytes | bytearray) else argument


def end_client(client: Any) -> None:
    """End a client's session and free its resources."""
    try:
        client.stop()
        client.close()
    except (kz.KazooException, OSError) as error:
        # The server will expire the session; only the sockets of one connection attempt stay open,
        # until that attempt ends.
        logger.warning("session end unconfirmed error=%s", error)
