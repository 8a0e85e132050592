"""A ZooKeeper server in memory: nodes, sessions, one-time watches. Its operations take no time."""

import random as random_module
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.support.simulated_time import Clock
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    SetData,
    TransactionFailed,
)


class Client(Protocol):
    """The owner of a session."""

    def fired(self, watch: Any) -> None:
        """Set a watch when its notification arrives, or when the connection loss is noticed."""


class _Node:
    __slots__ = ("czxid", "data", "mzxid", "owner", "stat", "version")

    def __init__(
        self, data: bytes, owner: int, czxid: int = 0, version: int = 0, mzxid: int = 0
    ) -> None:
        self.data = data
        self.version = version
        self.owner = owner
        self.czxid = czxid
        self.mzxid = mzxid or czxid
        self.stat: NodeStat | None = None

    def copy(self) -> "_Node":
        return _Node(self.data, self.owner, self.czxid, self.version, self.mzxid)


class SimZooKeeper:
    """The server: its tree of nodes, its sessions and their watches."""

    def __init__(
        self, clock: Clock, random: random_module.Random, session_timeout_s: float
    ) -> None:
        self.clock = clock
        self.random = random
        self.session_timeout_s = session_timeout_s
        self.nodes: dict[str, _Node] = {"": _Node(b"", 0)}
        self.names: dict[str, set[str]] = {"": set()}
        self.sessions: dict[int, Client] = {}
        self._last_session = 0
        self.zxid = 0
        self._sequence = 0
        # The probability that a transaction's answer is lost, and the reaction to it.
        self.answers_lost = 0.0
        self.on_answer_lost: Callable[[Client], object] = lambda session: None
        self._fired: list[tuple[str, str]] | None = None
        # (path, "data" | "children") -> (session, watch) in the order of their registration; a set
        # would make the order depend on addresses in memory.
        self.watches: dict[tuple[str, str], dict[tuple[Client, Any], None]] = {}

    # -- the tree

    def get(self, path: str) -> tuple[bytes, NodeStat]:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        stat = node.stat
        if stat is None:
            stat = node.stat = NodeStat(
                node.version,
                node.owner,
                ctime_ms=0,
                children=len(self.names[path]),
                czxid=node.czxid,
                mzxid=node.mzxid,
            )
        return node.data, stat

    def children(self, path: str) -> list[str]:
        if path not in self.nodes:
            raise NoNode(path)
        return sorted(self.names[path])

    def create(self, path: str, data: bytes = b"", owner: int = 0, parents: bool = False) -> None:
        parent, _, name = path.rpartition("/")
        if path in self.nodes:
            raise NodeExists(path)
        if parent not in self.nodes:
            if not parents:
                raise NoNode(parent)
            self.create(parent, parents=True)
        self.zxid += 1
        self.nodes[path] = _Node(data, owner, self.zxid)
        self.names[path] = set()
        self.names[parent].add(name)
        self._fire(path, "data")
        self._fire(parent, "children")

    def create_cluster(self) -> None:
        """Create the initial tree of a cluster."""
        for path in (*paths.PERSISTENT, "/admin"):
            if path not in self.nodes:
                self.create(path, parents=True)

    def numbered(self, prefix: str) -> str:
        """Return the path of the next sequential node; the whole tree shares one counter."""
        self._sequence += 1
        return f"{prefix}{self._sequence:010d}"

    def set(self, path: str, data: bytes, version: int = -1) -> None:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in {-1, node.version}:
            raise BadVersion(path)
        self.zxid += 1
        node.data = data
        node.mzxid = self.zxid
        node.version += 1
        node.stat = None
        self._fire(path, "data")

    def delete(self, path: str, version: int = -1) -> None:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in {-1, node.version}:
            raise BadVersion(path)
        if self.names[path]:
            raise NotEmpty(path)
        parent, _, name = path.rpartition("/")
        del self.nodes[path], self.names[path]
        self.names[parent].discard(name)
        self._fire(path, "data")
        self._fire(path, "children")
        self._fire(parent, "children")

    def apply(self, operation: Any, owner: int) -> None:
        match operation:
            case Create(path, data, ephemeral):
                self.create(path, data, owner if ephemeral else 0)
            case SetData(path, data, version):
                self.set(path, data, version)
            case Delete(path, version):
                self.delete(path, version)
            case Check(path, version):
                node = self.nodes.get(path)
                if node is None:
                    raise NoNode(path)
                if version not in {-1, node.version}:
                    raise BadVersion(path)

    def transaction(self, operations: Sequence[Any], owner: int) -> TransactionFailed | None:
        """Apply all operations in order; undo them all if one fails."""
        undo: list[tuple[str, _Node | None]] = []
        fired: list[tuple[str, str]] = []
        self._fired = fired
        try:
            for index, operation in enumerate(operations):
                node = self.nodes.get(operation.path)
                before = None if node is None else node.copy()
                try:
                    self.apply(operation, owner)
                except RegistryError as error:
                    self._undo(undo)
                    return TransactionFailed(index, operation.path, error)
                undo.append((operation.path, before))
        finally:
            self._fired = None
        for path, kind in fired:
            self._fire(path, kind)
        return None

    def _undo(self, undo: list[tuple[str, _Node | None]]) -> None:
        # Created and deleted nodes have no children here.
        for path, before in reversed(undo):
            parent, _, name = path.rpartition("/")
            if before is None:
                self.nodes.pop(path, None)
                self.names.pop(path, None)
                self.names[parent].discard(name)
            else:
                self.nodes[path] = before
                if path not in self.names:
                    self.names[path] = set()
                    self.names[parent].add(name)

    def _fire(self, path: str, kind: str) -> None:
        if kind == "children" and path in self.nodes:
            self.nodes[path].stat = None
        if self._fired is not None:
            self._fired.append((path, kind))
            return
        for session, watch in self.watches.pop((path, kind), ()):
            session.fired(watch)

    def watch(self, path: str, kind: str, session: Client, watch: Any) -> None:
        if watch is not None:
            self.watches.setdefault((path, kind), {})[session, watch] = None

    def forget_watches(self, session: Client) -> list[Any]:
        found = []
        for entries in self.watches.values():
            for entry in [entry for entry in entries if entry[0] is session]:
                del entries[entry]
                found.append(entry[1])
        return found

    # -- sessions

    def open(self, session: Client) -> int:
        self._last_session += 1
        self.sessions[self._last_session] = session
        return self._last_session

    def expire(self, number: int) -> None:
        """End a session and delete its ephemeral nodes."""
        if self.sessions.pop(number, None) is not None:
            for path in [path for path, node in self.nodes.items() if node.owner == number]:
                self.delete(path)
