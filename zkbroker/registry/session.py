"""A ZooKeeper session, the one door to the ZooKeeper client.

                 start                connection gone
    (not started) ----> CONNECTED <------------------> SUSPENDED
                            ^        back in time          |
                            | new session                  | the server expired the session
                            +------------- LOST <----------+

Invariants: state callbacks and watches run in the client's own task and only set events;
`generation` grows by one at every LOST, so that an owner loop which slept through LOST and the
CONNECTED after it still sees that its ephemeral nodes are gone; `lease_valid()` is true only while
the server cannot have expired the session yet, judged by the clock and not by what was delivered.
Reads are repeated when the connection breaks; a change is not, since it may have taken place: its
caller gets `ConnectionLost` and decides.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Self

import kazoo.exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from zkbroker.errors import RegistryError
from zkbroker.registry.errors import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    TransactionFailed,
)
from zkbroker.registry.nodes import (
    NodeStat,
    Operation,
    SetData,
    Settable,
    fill_transaction,
    library_error,
    node_stat,
    refusal,
    watcher,
)
from zkbroker.runtime import Runtime, Task, get_runtime

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 0.5


class SessionState(Enum):
    """What the session is worth at the moment."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class ZkSession:
    """One ZooKeeper session under a chroot; safe to use from many tasks of its runtime.

    Args:
        connect: `host:port,host:port/chroot`; a chroot that is missing is created.
        session_timeout_ms: how long the server keeps the session without hearing from us.
        connect_timeout_ms: how long `start` tries; the session timeout when not given.
        runtime: `threads`, `gevent` or a `Runtime`; under gevent use it from the hub's thread only.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int | None = None,
        runtime: str | Runtime = "threads",
    ) -> None:
        self.connect = connect
        self.hosts, slash, chroot = connect.partition("/")
        self.chroot = ("/" + chroot.strip("/")) if slash and chroot.strip("/") else ""
        self.session_timeout_ms = session_timeout_ms
        self.runtime = get_runtime(runtime)
        self._connect_timeout_s = (connect_timeout_ms or session_timeout_ms) / 1000
        # A request waits at most until the session would be over anyway, and a little.
        self._request_timeout_s = session_timeout_ms / 1000 + 2
        self._state = SessionState.LOST
        self._generation = 0
        self._callbacks: list[Callable[[SessionState], object]] = []
        self._lock = self.runtime.lock()
        self._connected = self.runtime.event()
        self._stopping = self.runtime.event()
        self._beat = self.runtime.event()
        self._proof_of_life = 0.0
        self._heartbeat: Task | None = None
        self._client: Any = None

    # -- life cycle

    def start(self) -> Self:
        """Connect, and create the chroot when it is missing.

        Raises:
            RegistryError: no ZooKeeper answered within the connect timeout.
        """
        if self._client is not None:
            raise RegistryError("the session was started already")
        try:
            client = self._new_client(self.hosts)
        except ValueError as error:
            raise RegistryError(
                f"zookeeper.connect={self.connect!r} is not host:port[,host:port][/chroot]: {error}"
            ) from None
        started = time.monotonic()
        client.start_async().wait(self._connect_timeout_s)
        if not client.connected:
            self._end(client)
            raise RegistryError(
                f"no ZooKeeper answered at {self.hosts} within {self._connect_timeout_s:g} s: "
                "start one there, or correct zookeeper.connect"
            )
        self._client = client
        self._proof_of_life = started
        self._state = SessionState.CONNECTED
        self._connected.set()
        # Set by hand rather than in the address, so that the chroot can be made first.
        if self.chroot:
            self._make_path(self.chroot)
            client.chroot = self.chroot
        client.add_listener(self._state_changed)
        if not client.connected:
            self._state_changed(KazooState.SUSPENDED)
        self._heartbeat = self.runtime.spawn(self._prove_life, name="zookeeper-heartbeat")
        logger.info(
            "session started zookeeper=%s chroot=%s session=0x%x",
            self.hosts,
            self.chroot or "/",
            self.session_id,
        )
        return self

    def _new_client(self, hosts: str) -> Any:
        if self.runtime.name == "gevent":
            from kazoo.handlers.gevent import SequentialGeventHandler as Handler
        else:
            from kazoo.handlers.threading import SequentialThreadingHandler as Handler
        handler = Handler()
        # The client's own default doubles the delay between attempts up to an hour.
        forever = KazooRetry(
            max_tries=-1,
            delay=RECONNECT_FIRST_S,
            max_delay=RECONNECT_MAX_S,
            sleep_func=handler.sleep_func,
        )
        # The client waits for the answer to a connection for its session timeout divided by the
        # number of addresses. A server that has just started may accept one and never answer it:
        # with a single address the session would be over before the second attempt.
        addresses = hosts.split(",")
        return KazooClient(
            hosts=",".join(addresses * (1 if len(addresses) > 2 else 3)),
            timeout=self.session_timeout_ms / 1000,
            handler=handler,
            connection_retry=forever,
            logger=logger,
        )

    def close(self) -> None:
        """End the session; its ephemeral nodes go at once. May be called twice."""
        self._stopping.set()
        self._beat.set()
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._state_changed)
        self._end(client)
        self._connected.clear()
        if self._heartbeat is not None:
            self._heartbeat.join(self._request_timeout_s)
        if self._state is not SessionState.LOST:
            self._change(SessionState.LOST)
        logger.info("session closed zookeeper=%s", self.hosts)

    @staticmethod
    def _end(client: Any) -> None:
        try:
            client.stop()
            client.close()
        except (kz.KazooException, OSError) as error:
            # The server expires the session by itself; only the sockets of one attempt to connect
            # are left over, until that attempt ends.
            logger.warning("session end unconfirmed error=%s", error)

    def __enter__(self) -> Self:
        return self if self._client is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- state

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def closed(self) -> bool:
        return self._stopping.is_set()

    @property
    def generation(self) -> int:
        """How many sessions were lost so far."""
        return self._generation

    @property
    def session_id(self) -> int:
        """The id of the session, as in `NodeStat.ephemeral_owner`; 0 when there is none."""
        client = self._client
        identity = client.client_id if client is not None else None
        return int(identity[0] or 0) if identity else 0

    def wait_connected(self, timeout_s: float | None = None) -> bool:
        return self._connected.wait(timeout_s)

    def lease_valid(self) -> bool:
        """Whether the server cannot have expired the session yet.

        False after the process was stopped for longer than the session timeout, even before the
        client noticed anything.
        """
        age_s = time.monotonic() - self._proof_of_life
        return self._state is not SessionState.LOST and age_s < self.session_timeout_ms / 1000

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        """Call back at every change of state, from the client's task: only set events there.

        Returns:
            a function that ends it.
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
                self._generation += 1
            self._state = state
            callbacks = tuple(self._callbacks)
        logger.info("session state=%s generation=%d", state.value, self._generation)
        for callback in callbacks:
            callback(state)

    def _prove_life(self) -> None:
        while not self._stopping.is_set():
            self._beat.wait(self.session_timeout_ms / 1000 / 4)
            self._beat.clear()
            if self._state is not SessionState.CONNECTED:
                continue
            sent = time.monotonic()
            generation = self._generation
            with contextlib.suppress(RegistryError):
                self._call(lambda: self._live().exists_async("/"), "/")
                if generation == self._generation:
                    self._proof_of_life = max(self._proof_of_life, sent)

    # -- reads

    def get(self, path: str, watch: Settable | None = None) -> tuple[bytes, NodeStat]:
        """Return a node's data.

        Raises:
            NoNode: it does not exist; no watch is left then.
        """
        data, stat = self._read(lambda: self._live().get_async(path, watcher(watch)), path)
        return data or b"", node_stat(stat)

    def exists(self, path: str, watch: Settable | None = None) -> NodeStat | None:
        """Return what is known of a node, None when there is none; the watch is left either way."""
        stat = self._read(lambda: self._live().exists_async(path, watcher(watch)), path)
        return None if stat is None else node_stat(stat)

    def children(self, path: str, watch: Settable | None = None) -> list[str]:
        """Return the names of the children, sorted.

        Raises:
            NoNode: the node does not exist; no watch is left then.
        """
        return sorted(
            self._read(lambda: self._live().get_children_async(path, watcher(watch)), path)
        )

    def get_many(
        self, paths: Sequence[str], watches: Sequence[Settable] | None = None
    ) -> list[tuple[bytes, NodeStat] | None]:
        """Read many nodes in one flight; None (and no watch) for one that does not exist.

        Args:
            paths: the nodes.
            watches: one for each node.
        """
        watchers = [None] * len(paths) if watches is None else [watcher(w) for w in watches]

        def ask() -> list[Any]:
            pending = [
                self._live().get_async(path, watch)
                for path, watch in zip(paths, watchers, strict=True)
            ]
            found: list[Any] = []
            for path, result in zip(paths, pending, strict=True):
                try:
                    found.append(self._await(result, path))
                except NoNode:
                    found.append(None)
            return found

        answers = self._repeat(ask)
        return [None if a is None else (a[0] or b"", node_stat(a[1])) for a in answers]

    # -- changes

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create a node and return its path (with the number, when sequential).

        Raises:
            NodeExists: it exists.
            NoNode: its parent does not, and `parents` is false.
        """
        return str(
            self._call(
                lambda: self._live().create_async(
                    path, data, ephemeral=ephemeral, sequence=sequential, makepath=parents
                ),
                path,
            )
        )

    def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        """Replace a node's data.

        Raises:
            BadVersion: a version was given and the node has another.
        """
        return node_stat(self._call(lambda: self._live().set_async(path, data, version), path))

    def set_many(self, writes: Sequence[SetData]) -> list[NodeStat | RegistryError]:
        """Replace the data of many nodes in one flight.

        Returns:
            for each, its new stat or why it was not written (NoNode, BadVersion).
        """
        pending = []
        for write in writes:
            with _translated(write.path):
                pending.append(self._live().set_async(write.path, write.data, write.version))
        answers: list[NodeStat | RegistryError] = []
        for write, result in zip(writes, pending, strict=True):
            try:
                answers.append(node_stat(self._await(result, write.path)))
            except (NoNode, BadVersion) as error:
                answers.append(error)
        return answers

    def delete(
        self, path: str, version: int = -1, *, recursive: bool = False, missing_ok: bool = False
    ) -> None:
        """Delete a node, with all below it when `recursive`."""
        while True:
            try:
                self._call(lambda: self._live().delete_async(path, version), path)
            except NoNode:
                if not (missing_ok or recursive):
                    raise
            except NotEmpty:
                if not recursive:
                    raise
                with contextlib.suppress(NoNode):
                    for child in self.children(path):
                        self.delete(f"{path}/{child}", recursive=True)
                continue
            return

    def ensure_path(self, path: str) -> None:
        """Create a persistent node and its parents where they are missing."""
        self._make_path(path)

    def transaction(self, operations: Sequence[Operation]) -> None:
        """Do all of the operations or none.

        Raises:
            TransactionFailed: none was done.
        """
        if not operations:
            return

        refused = self.transactions([operations])[0]
        if refused is not None:
            raise refused

    def transactions(
        self, batches: Sequence[Sequence[Operation]]
    ) -> list[TransactionFailed | None]:
        """Do many transactions in one flight, each all or nothing, in order.

        Returns:
            for each, None when it was done and else why it was refused.
        """
        pending = []
        for operations in batches:
            with _translated(operations[0].path):
                transaction = self._live().transaction()
                fill_transaction(transaction, operations)
                pending.append(transaction.commit_async())
        return [
            refusal(operations, self._await(result, operations[0].path))
            for operations, result in zip(batches, pending, strict=True)
        ]

    # -- how a request is made

    def _live(self) -> Any:
        client = self._client
        if client is None:
            raise SessionLost(
                "the session is closed" if self.closed else "the session was not started"
            )
        return client

    def _await(self, result: Any, path: str) -> Any:
        # Waited for and then taken: a timed `get` raises differently in every kind of task.
        result.wait(self._request_timeout_s)
        if not result.ready():
            raise ConnectionLost(f"{path or '/'}: no answer from ZooKeeper at {self.hosts}")
        with _translated(path):
            return result.get(block=False)

    def _call(self, send: Callable[[], Any], path: str) -> Any:
        with _translated(path):
            result = send()
        return self._await(result, path)

    def _read(self, send: Callable[[], Any], path: str) -> Any:
        return self._repeat(lambda: self._call(send, path))

    def _repeat(self, read: Callable[[], Any]) -> Any:
        """Repeat a read whose connection broke, until the time of one request has passed."""
        deadline = time.monotonic() + self._request_timeout_s
        while True:
            try:
                return read()
            except ConnectionLost:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.closed or not self.wait_connected(left_s):
                    raise

    def _make_path(self, path: str) -> None:
        if self.exists(path) is not None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self._make_path(parent)
        with contextlib.suppress(NodeExists):
            self.create(path)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except kz.KazooException as error:
        raise library_error(error, path) from None
