"""A ZooKeeper session whose requests take no time, for tests of reads and writes.

`InstantSession` answers to the part of `ZkSession` that brokers and the controller use, on the
simulated server; watches fire within the change that causes them. Only `suspend`, `reconnect` and
`expire` cause failures. It may be used from many threads.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.simulated_calls import ServerCalls
from tests.support.simulated_time import Clock
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import (
    BadVersion,
    ConnectionLost,
    NodeStat,
    NoNode,
    SessionLost,
    SessionState,
)

_LOCK = get_runtime("threads").lock()


def new_server() -> SimZooKeeper:
    """Return a server with the initial tree of a cluster."""
    server = SimZooKeeper(Clock(), random.Random(1), 6.0)
    server.create_cluster()
    return server


def children_data(session: "InstantSession", path: str) -> list[bytes]:
    """Return the data of a node's children, in the order of their names."""
    return [session.get(f"{path}/{name}")[0] for name in sorted(session.children(path))]


class InstantSession(ServerCalls):
    """A session without time. `before`, when set, is called before every change.

    `flights` counts the calls; `asked` has every path that they read or changed, in order.
    """

    session_timeout_ms = 6000

    def __init__(self, server: SimZooKeeper | None = None, runtime: Any = None) -> None:
        self.server = server or new_server()
        self.runtime = runtime or get_runtime("threads")
        self.generation = 0
        self.closed = False
        self.state = SessionState.CONNECTED
        self.session_id = self.server.open(self)
        self.before: Callable[[], object] = lambda: None
        self.flights = 0
        self.asked: list[str] = []
        self._callbacks: list[Callable[[SessionState], object]] = []
        # One for all sessions of a server: they share its tree.
        self._lock = _LOCK

    def fired(self, watch: Any) -> None:
        watch.set()

    def expire(self) -> None:
        """The session ends at the server, and another one begins."""
        with self._lock:
            watches = self.server.forget_watches(self)
            self.server.expire(self.session_id)
            self.generation += 1
        self._change(SessionState.LOST)
        self.session_id = self.server.open(self)
        self._change(SessionState.CONNECTED)
        for watch in watches:
            watch.set()

    def suspend(self) -> None:
        """The connection breaks: every watch fires, and each call fails until `reconnect`."""
        self._change(SessionState.SUSPENDED)
        with self._lock:
            watches = self.server.forget_watches(self)
        for watch in watches:
            watch.set()

    def reconnect(self) -> None:
        self._change(SessionState.CONNECTED)

    def _change(self, state: SessionState) -> None:
        self.state = state
        for callback in tuple(self._callbacks):
            callback(state)

    def close(self) -> None:
        self.closed = True
        self.server.expire(self.session_id)

    def wait_connected(self, timeout_s: float | None = None) -> bool:
        return self.state is SessionState.CONNECTED and not self.closed

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def _flight(self, *asked: str) -> None:
        if self.closed:
            raise SessionLost("the session is over")
        if self.state is not SessionState.CONNECTED:
            raise ConnectionLost("not connected")
        self.flights += 1
        self.asked += asked

    def _read(self, execute: Callable[[], Any], *paths: str) -> Any:
        with self._lock:
            self._flight(*paths)
            return execute()

    def _write(self, execute: Callable[[], Any], *paths: str) -> Any:
        with self._lock:
            self._flight(*paths)
            self.before()
            return execute()

    def get_many(
        self, names: Sequence[str], watches: Sequence[Any] | None = None
    ) -> list[tuple[bytes, NodeStat] | None]:
        asked = list(zip(names, watches or [None] * len(names), strict=True))
        return self._read(lambda: self._find_all(asked), *names)

    def exists_many(
        self, names: Sequence[str], watches: Sequence[Any] | None = None
    ) -> list[NodeStat | None]:
        asked = zip(names, watches or [None] * len(names), strict=True)
        return self._read(lambda: [self._look(*each) for each in asked], *names)

    def set_many(self, writes: Sequence[Any]) -> list[NodeStat | RegistryError]:
        answers: list[NodeStat | RegistryError] = []
        for write in writes:
            try:
                answers.append(self.set(write.path, write.data, write.version))
            except (NoNode, BadVersion) as error:
                answers.append(error)
        return answers

    def delete(
        self, path: str, version: int = -1, *, recursive: bool = False, missing_ok: bool = False
    ) -> None:
        with self._lock:
            if recursive and path in self.server.nodes:
                for child in self.server.children(path):
                    self.delete(f"{path}/{child}", recursive=True)
            super().delete(path, version, missing_ok=missing_ok or recursive)
