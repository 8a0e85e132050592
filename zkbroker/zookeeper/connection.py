"""The life of a ZooKeeper session: its states, its lease, and its requests.

                 start                connection gone
    (not started) ----> CONNECTED <------------------> SUSPENDED
                            ^        back in time          |
                            | new session                  | the server expired the session
                            +------------- LOST <----------+

Invariants: state callbacks and watches run in the client's own task and only set events.
`generation` grows by one at every LOST, so that an owner loop that missed LOST and the following
CONNECTED still notices that its ephemeral nodes are gone. `lease_valid()` is true only while the
server cannot have expired the session yet; it depends on the clock, not on delivered events.
Without a connection no request is queued: a change fails at once, and a read is sent when the
connection is back. Each wait for an answer is limited by `request_timeout_s`.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Self

import kazoo.exceptions as kz
from kazoo.protocol.states import KazooState

from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.runtime import Runtime, Task, get_runtime
from zkbroker.zookeeper.client import end_client, new_client
from zkbroker.zookeeper.errors import ConnectionLost, NotPermitted, SessionLost, ZkLoginRefused
from zkbroker.zookeeper.nodes import library_error

logger = logging.getLogger(__name__)


class SessionState(Enum):
    """The state of a session; see the module."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class ZkConnection:
    """A connection and its session; `ZkSession` adds the operations on nodes.

    Arguments as of `ZkSession`.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int | None = None,
        runtime: str | Runtime = "threads",
        make_chroot: bool = True,
        security: ZooKeeperSecurity = UNPROTECTED,
    ) -> None:
        self.connect = connect
        self.make_chroot = make_chroot
        self.security = security
        self.hosts, slash, chroot = connect.partition("/")
        self.chroot = ("/" + chroot.strip("/")) if slash and chroot.strip("/") else ""
        self.session_timeout_ms = session_timeout_ms
        self.runtime = get_runtime(runtime)
        self._connect_timeout_s = (connect_timeout_ms or session_timeout_ms) / 1000
        # Replaced by the granted timeout, which may be less, at the first connection.
        self._lease_s = session_timeout_ms / 1000
        # A request need not wait much longer than the session can live without an answer.
        self.request_timeout_s = session_timeout_ms / 1000 + 2
        """How long a request waits for its answer, in seconds."""
        self.state = SessionState.LOST
        self.generation = 0
        """How many sessions have been lost; it grows before the callbacks of LOST run."""
        self._callbacks: list[Callable[[SessionState], object]] = []
        self._lock = self.runtime.lock()
        self._connected = self.runtime.event()
        self._stopping = self.runtime.event()
        self._beat = self.runtime.event()
        self._proof_of_life = 0.0
        self._heartbeat: Task | None = None
        self._client: Any = None
        self._answered = self.runtime.event()
        self._refusal: str | None = None

    # -- life cycle

    def start(self) -> Self:
        """Connect.

        Raises:
            RegistryError: no ZooKeeper answered within the connect timeout.
            LoginRefused: ZooKeeper refused the login.
        """
        if self._client is not None:
            raise RegistryError("the session was started already")
        try:
            _check_ports(self.hosts)
            client = new_client(
                self.hosts,
                self.session_timeout_ms / 1000,
                self.runtime,
                self._granted,
                self.request_timeout_s,
                self.security,
                self._refused,
            )
        except ValueError as error:
            raise RegistryError(
                f"zookeeper.connect={self.connect!r} is not host:port[,host:port][/chroot]: {error}"
            ) from None
        started = time.monotonic()
        client.start_async()
        self._answered.wait(self._connect_timeout_s)
        if self._refusal is not None or not client.connected:
            end_client(client)
            if self._refusal is not None:
                raise ZkLoginRefused(self._refusal)
            advice = "start one there, or correct zookeeper.connect"
            if client.gate.cut_off:
                advice += "; it closes connections: is that its "
                advice += (
                    "port for TLS (zookeeper.ssl.client.enable=true)?"
                    if self.security.tls is None
                    else "plain port (zookeeper.ssl.client.enable=false)?"
                )
            raise RegistryError(
                f"no ZooKeeper answered at {self.hosts} within {self._connect_timeout_s:g} s: "
                + advice
            )
        self._client = client
        self._proof_of_life = started
        self.state = SessionState.CONNECTED
        self._connected.set()
        client.add_listener(self._state_changed)
        if not client.connected:
            self._state_changed(KazooState.SUSPENDED)
        self._heartbeat = self.runtime.spawn(self._prove_life, name="zookeeper-heartbeat")
        logger.info(
            "session started zookeeper=%s session=0x%x timeout_s=%g",
            self.hosts,
            self.session_id,
            self._lease_s,
        )
        return self

    def _granted(self, timeout_s: float) -> None:
        self._lease_s = timeout_s
        self._answered.set()

    def _refused(self, reason: str) -> None:
        self._refusal = reason
        self._answered.set()

    def close(self) -> None:
        """End the session, which removes its ephemeral nodes. A second call does nothing."""
        self._stopping.set()
        self._beat.set()
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._state_changed)
        end_client(client)
        # Tasks that wait for a connection stop waiting.
        self._connected.set()
        if self._heartbeat is not None:
            self._heartbeat.join(self.request_timeout_s)
        if self.state is not SessionState.LOST:
            self._change(SessionState.LOST)
        logger.info("session closed zookeeper=%s", self.hosts)

    def __enter__(self) -> Self:
        return self if self._client is not None else self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- state

    @property
    def closed(self) -> bool:
        return self._stopping.is_set()

    @property
    def session_id(self) -> int:
        """The id of the session, as in `NodeStat.ephemeral_owner`; 0 without a session."""
        client = self._client
        identity = client.client_id if client is not None else None
        return int(identity[0] or 0) if identity else 0

    def wait_connected(self, timeout_s: float | None = None) -> bool:
        """Wait for a connection; False if there is none in time, or the session was closed."""
        return self._connected.wait(timeout_s) and not self.closed

    def lease_valid(self) -> bool:
        """Whether the server cannot have expired the session yet.

        After the process was suspended for longer than the session timeout it is False, even before
        the client notices the loss.
        """
        age_s = time.monotonic() - self._proof_of_life
        return self.state is not SessionState.LOST and age_s < self._lease_s

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        """Register a callback for every change of state; it runs in the client's task.

        The callback must only set events.

        Returns:
            a function that removes the callback.
        """
        with self._lock:
            self._callbacks.append(callback)

        def unsubscribe() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return unsubscribe

    def _state_changed(self, state: str) -> None:
        if self._stopping.is_set():
            return
        if state == KazooState.CONNECTED:
            self._change(SessionState.CONNECTED)
            self._connected.set()
            self._beat.set()
        else:
            self._connected.clear()
            lost = state == KazooState.LOST
            self._change(SessionState.LOST if lost else SessionState.SUSPENDED)

    def _change(self, state: SessionState) -> None:
        with self._lock:
            if state is SessionState.LOST:
                self.generation += 1
            self.state = state
            callbacks = tuple(self._callbacks)
        as_wished = state is SessionState.CONNECTED or self._stopping.is_set()
        logger.log(
            logging.INFO if as_wished else logging.WARNING,
            "session state=%s generation=%d zookeeper=%s",
            state.value,
            self.generation,
            self.hosts,
        )
        for callback in callbacks:
            callback(state)

    def _prove_life(self) -> None:
        while not self._stopping.is_set():
            self._beat.wait(self._lease_s / 4)
            self._beat.clear()
            if self.state is not SessionState.CONNECTED:
                continue
            sent = time.monotonic()
            generation = self.generation
            with contextlib.suppress(RegistryError):
                self._call(lambda: self._live().exists_async("/"), "/")
                if generation == self.generation:
                    self._proof_of_life = max(self._proof_of_life, sent)

    # -- how a request is made

    def _deadline(self) -> float:
        return time.monotonic() + self.request_timeout_s

    def _live(self) -> Any:
        client = self._client
        if client is None:
            raise SessionLost(
                "the session is closed" if self.closed else "the session was not started"
            )
        if not client.connected:
            raise ConnectionLost(f"not connected to ZooKeeper at {self.hosts}")
        return client

    def _await(self, result: Any, path: str, deadline: float) -> Any:
        # First `wait`, then `get`: a `get` with a time-out raises differently in each runtime.
        result.wait(max(0.0, deadline - time.monotonic()))
        if not result.ready():
            raise ConnectionLost(f"{path or '/'}: no answer from ZooKeeper at {self.hosts}")
        with self._translated(path):
            return result.get(block=False)

    def _call(self, send: Callable[[], Any], path: str, deadline: float | None = None) -> Any:
        with self._translated(path):
            result = send()
        return self._await(result, path, self._deadline() if deadline is None else deadline)

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        """Translate the client's exceptions into ours.

        An invalid path is refused here: if it were sent, it would break the connection for all.
        """
        try:
            path.encode()
            yield
        except kz.KazooException as error:
            found = library_error(error, path)
            if isinstance(found, NotPermitted):
                login = self.security.logins
                has = f"is logged in as {login}" if login else "has no login"
                found = NotPermitted(f"{found}; this session {has}")
            raise found from None
        except ValueError as error:
            raise RegistryError(f"{path!r} is not a path of a node: {error}") from None

    def _read(self, send: Callable[[], Any], path: str) -> Any:
        return self._repeat(lambda deadline: self._call(send, path, deadline))

    def _repeat(self, read: Callable[[float], Any]) -> Any:
        """Retry a read whose connection broke, within the time-out of one request."""
        deadline = self._deadline()
        while True:
            try:
                return read(deadline)
            except ConnectionLost:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.closed or not self.wait_connected(left_s):
                    raise


def _check_ports(hosts: str) -> None:
    for address in hosts.split(","):
        port = address.rpartition(":")[2]
        if port.isdecimal() and not 0 < int(port) < 65_536:
            raise ValueError(f"{port} is not a port")
