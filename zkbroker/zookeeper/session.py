"""A ZooKeeper session: the interface for all reads and changes of nodes.

Invariants: a read is retried when the connection breaks. A change is not, since it may have been
made: the caller gets `ConnectionLost` and decides. A watch only sets its target. At most `FLIGHT`
requests of one call are under way at once. Paths are relative to the chroot.
"""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from zkbroker.errors import RegistryError
from zkbroker.runtime.pacing import in_parts
from zkbroker.zookeeper.acls import Acl, acl_for, acl_of, kazoo_acl
from zkbroker.zookeeper.connection import SessionState, ZkConnection
from zkbroker.zookeeper.errors import (
    BadVersion,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    TransactionFailed,
)
from zkbroker.zookeeper.nodes import (
    NodeStat,
    Operation,
    SetData,
    Settable,
    Watcher,
    fill_transaction,
    node_stat,
    refusal,
    watcher,
)

__all__ = ["SessionState", "ZkSession"]

FLIGHT = 500


class ZkSession(ZkConnection):
    """One ZooKeeper session under a chroot; safe to use from many tasks of its runtime.

    Args:
        connect: `host:port,host:port/chroot`.
        session_timeout_ms: how long the server keeps the session without hearing from us.
        connect_timeout_ms: how long `start` tries; by default the session timeout.
        runtime: `threads`, `gevent` or a `Runtime`; under gevent use it from the hub's thread only.
        make_chroot: create a missing chroot; if false, reads under a missing one find no node.
        security: the login, and the rights on new nodes.
    """

    def start(self) -> Self:
        """Connect, and create a missing chroot, unless `make_chroot` is false.

        Raises:
            RegistryError: no ZooKeeper answered within the connect timeout.
            LoginRefused: ZooKeeper refused the login, or requires one and none is set.
        """
        super().start()
        try:
            # The chroot is set here and not in the address, so that it can be created first. A
            # server that requires a login refuses this first request.
            if self.exists(self.chroot or "/") is None and self.make_chroot:
                self.ensure_path(self.chroot)
            if self.chroot:
                self._live().chroot = self.chroot
        except RegistryError:
            self.close()
            raise
        return self

    # -- reads

    def get(self, path: str, watch: Settable | None = None) -> tuple[bytes, NodeStat]:
        """Return a node's data.

        Raises:
            NoNode: it does not exist; no watch is set then.
        """
        data, stat = self._read(lambda: self._live().get_async(path, watcher(watch)), path)
        return data or b"", node_stat(stat)

    def exists(self, path: str, watch: Settable | None = None) -> NodeStat | None:
        """Return the metadata of a node, None without the node; the watch is set in both cases."""
        stat = self._read(lambda: self._live().exists_async(path, watcher(watch)), path)
        return None if stat is None else node_stat(stat)

    def children(self, path: str, watch: Settable | None = None) -> list[str]:
        """Return the names of the children, sorted.

        Raises:
            NoNode: the node does not exist; no watch is set then.
        """
        return sorted(
            self._read(lambda: self._live().get_children_async(path, watcher(watch)), path)
        )

    def get_many(
        self, paths: Sequence[str], watches: Sequence[Settable] | None = None
    ) -> list[tuple[bytes, NodeStat] | None]:
        """Read many nodes with pipelined requests; None (and no watch) for a missing one."""
        answers = self._ask_many(
            paths, watches, lambda path, watch: self._live().get_async(path, watch)
        )
        return [None if a is None else (a[0] or b"", node_stat(a[1])) for a in answers]

    def exists_many(
        self, paths: Sequence[str], watches: Sequence[Settable] | None = None
    ) -> list[NodeStat | None]:
        """Return the metadata of many nodes, None for missing ones; all watches are set."""
        answers = self._ask_many(
            paths, watches, lambda path, watch: self._live().exists_async(path, watch)
        )
        return [None if stat is None else node_stat(stat) for stat in answers]

    def _ask_many(
        self,
        paths: Sequence[str],
        watches: Sequence[Settable] | None,
        send: Callable[[str, Watcher | None], Any],
    ) -> list[Any]:
        asked = [
            (path, None if watches is None else watcher(watches[index]))
            for index, path in enumerate(paths)
        ]

        def ask(flight: Sequence[tuple[str, Watcher | None]], deadline: float) -> list[Any]:
            pending = []
            for path, watch in flight:
                with self._translated(path):
                    pending.append(send(path, watch))
            found: list[Any] = []
            for (path, _), result in zip(flight, pending, strict=True):
                try:
                    found.append(self._await(result, path, deadline))
                except NoNode:
                    found.append(None)
            return found

        answers: list[Any] = []
        for flight in in_parts(asked, FLIGHT):
            answers += self._repeat(partial(ask, flight))
        return answers

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
        """Create a node and return its path (with the number if it is sequential).

        Raises:
            NodeExists: the node exists.
            NoNode: its parent does not exist, and `parents` is false.
        """
        rights = self._rights(path)

        def send() -> Any:
            return self._live().create_async(
                path, data, acl=rights, ephemeral=ephemeral, sequence=sequential
            )

        try:
            return str(self._call(send, path))
        except NoNode:
            if not parents:
                raise
        # One by one, since each parent has its own rights.
        self.ensure_path(path.rpartition("/")[0])
        return str(self._call(send, path))

    def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        """Replace a node's data.

        Raises:
            BadVersion: the node has another version than the given one.
        """
        return node_stat(self._call(lambda: self._live().set_async(path, data, version), path))

    def set_many(self, writes: Sequence[SetData]) -> list[NodeStat | RegistryError]:
        """Replace the data of many nodes with pipelined requests.

        Returns:
            for each node its new metadata, or the error (NoNode, BadVersion).
        """
        answers: list[NodeStat | RegistryError] = []
        for flight in in_parts(writes, FLIGHT):
            deadline = self._deadline()
            pending = []
            for write in flight:
                with self._translated(write.path):
                    pending.append(self._live().set_async(write.path, write.data, write.version))
            for write, result in zip(flight, pending, strict=True):
                try:
                    answers.append(node_stat(self._await(result, write.path, deadline)))
                except (NoNode, BadVersion) as error:
                    answers.append(error)
        return answers

    def delete(
        self, path: str, version: int = -1, *, recursive: bool = False, missing_ok: bool = False
    ) -> None:
        """Delete a node; if `recursive`, with all nodes below it."""
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
        """Create a persistent node and its parents if they are missing."""
        if self.exists(path) is not None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.ensure_path(parent)
        with contextlib.suppress(NodeExists):
            self.create(path)

    def transaction(self, operations: Sequence[Operation]) -> None:
        """Make all of the operations or none.

        Raises:
            NotPermitted: the rights on a node do not allow it; nothing was changed.
            TransactionFailed: nothing was changed for another reason, such as another client's
                change.
        """
        if not operations:
            return

        refused = self.transactions([operations])[0]
        if refused is not None:
            # Callers retry after `TransactionFailed`; without the rights a retry would be in vain.
            raise refused.cause if isinstance(refused.cause, NotPermitted) else refused

    def transactions(
        self, batches: Sequence[Sequence[Operation]]
    ) -> list[TransactionFailed | None]:
        """Make many transactions, each all or nothing, pipelined and in order.

        Returns:
            for each None if it was made, else the error.
        """
        answers: list[TransactionFailed | None] = []
        for flight in in_parts(batches, FLIGHT):
            deadline = self._deadline()
            pending = []
            for operations in flight:
                with self._translated(operations[0].path):
                    transaction = self._live().transaction()
                    fill_transaction(transaction, operations, self._rights)
                    pending.append(transaction.commit_async())
            answers += [
                refusal(operations, self._await(result, operations[0].path, deadline))
                for operations, result in zip(flight, pending, strict=True)
            ]
        return answers

    # -- rights

    def acls(self, paths: Sequence[str]) -> list[tuple[Acl, int] | None]:
        """Return the rights on many nodes and the rights' versions; None for a missing node."""
        answers = self._ask_many(paths, None, lambda path, _: self._live().get_acls_async(path))
        return [None if a is None else (acl_of(a[0]), a[1].aversion) for a in answers]

    def set_acls(self, changes: Sequence[tuple[str, Acl, int]]) -> list[RegistryError | None]:
        """Replace the rights on many nodes with pipelined requests.

        Args:
            changes: path, rights, and the version of the replaced rights.

        Returns:
            for each None if it was made, else the error (NoNode, BadVersion, NotPermitted).
        """
        answers: list[RegistryError | None] = []
        for flight in in_parts(changes, FLIGHT):
            deadline = self._deadline()
            pending = []
            for path, acl, version in flight:
                with self._translated(path):
                    pending.append(self._live().set_acls_async(path, kazoo_acl(acl), version))
            for (path, _, _), result in zip(flight, pending, strict=True):
                try:
                    self._await(result, path, deadline)
                    answers.append(None)
                except (NoNode, BadVersion, NotPermitted) as error:
                    answers.append(error)
        return answers

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Return the names of the children of many nodes; None for a missing node."""
        return self._ask_many(paths, None, lambda path, _: self._live().get_children_async(path))

    def _rights(self, path: str) -> Any:
        """Return the rights of a new node in the client's form; None leaves it open."""
        return kazoo_acl(acl_for(path)) if self.security.set_acl else None
