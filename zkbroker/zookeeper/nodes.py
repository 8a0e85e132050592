"""Nodes and changes to them as data, and their translation to and from the ZooKeeper client.

Invariant: an exception of the client becomes exactly one `RegistryError` (see
`zkbroker.zookeeper.errors`), and the result of a transaction is None or names the operation that
was refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import kazoo.exceptions as kz

from zkbroker.errors import RegistryError
from zkbroker.zookeeper.errors import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    SessionLost,
    TransactionFailed,
    ZkLoginRefused,
)


class Settable(Protocol):
    """The target of a watch: an object to set, such as an event."""

    def set(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NodeStat:
    """ZooKeeper's metadata of a node; times in milliseconds since 1970.

    `ephemeral_owner` is the id of the session in which the node lives, 0 for a persistent node.
    `czxid` is the transaction that created the node, so that a recreated node has a larger one;
    `mzxid` is the last one that wrote its data.
    """

    version: int
    ephemeral_owner: int
    ctime_ms: int
    children: int
    czxid: int = 0
    mzxid: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    """Requires that the node exists, and has this version unless that is -1."""

    path: str
    version: int = -1


Operation = Create | SetData | Delete | Check

_ERRORS: dict[type[kz.KazooException], type[RegistryError]] = {
    kz.NoNodeError: NoNode,
    kz.NodeExistsError: NodeExists,
    kz.BadVersionError: BadVersion,
    kz.NotEmptyError: NotEmpty,
    kz.ConnectionLoss: ConnectionLost,
    kz.OperationTimeoutError: ConnectionLost,
    kz.SessionExpiredError: SessionLost,
    kz.NoAuthError: NotPermitted,
    kz.AuthFailedError: ZkLoginRefused,
    kz.SessionClosedRequireSaslError: ZkLoginRefused,
}


def library_error(error: kz.KazooException, path: str) -> RegistryError:
    """Return our exception for one of the client's."""
    for known, ours in _ERRORS.items():
        if isinstance(error, known):
            return ours(f"{path or '/'}: {_TEXTS[ours]}")
    return RegistryError(f"{path or '/'}: {type(error).__name__} {error}".rstrip())


_TEXTS: dict[type[RegistryError], str] = {
    NoNode: "no such node",
    NodeExists: "the node exists already",
    BadVersion: "the node was changed by another client",
    NotEmpty: "the node has children",
    ConnectionLost: "the connection to ZooKeeper broke",
    SessionLost: "the ZooKeeper session is over",
    NotPermitted: "ZooKeeper permits it only to another login: set the login of the brokers "
    "(zookeeper.sasl.jaas.config, a JAAS file or zookeeper.auth.digest)",
    ZkLoginRefused: "ZooKeeper requires a login: set zookeeper.sasl.jaas.config, or a JAAS file "
    "with a section Client",
}


def node_stat(stat: Any) -> NodeStat:
    return NodeStat(
        version=stat.version,
        ephemeral_owner=stat.ephemeralOwner,
        ctime_ms=stat.ctime,
        children=stat.numChildren,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
    )


@dataclass(frozen=True, slots=True)
class Watcher:
    """The client's form of a watch; it only sets its target.

    Watchers with the same target are equal, so that repeated reads of a node leave one watch at the
    client instead of one for each read.
    """

    watch: Settable

    def __call__(self, _event: object) -> None:
        self.watch.set()


def watcher(watch: Settable | None) -> Watcher | None:
    return None if watch is None else Watcher(watch)


def fill_transaction(
    transaction: Any, operations: Sequence[Operation], rights: Callable[[str], Any]
) -> None:
    """Put the operations into a transaction of the client.

    Args:
        transaction: the transaction to fill.
        operations: the operations to add.
        rights: path → the rights of a new node, in the client's form.
    """
    for operation in operations:
        match operation:
            case Create(path, data, ephemeral):
                transaction.create(path, data, acl=rights(path), ephemeral=ephemeral)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)


def refusal(operations: Sequence[Operation], results: Sequence[object]) -> TransactionFailed | None:
    """Return the error of a refused transaction, None if it was made."""
    for index, result in enumerate(results):
        # The operations before and after the failed one have these two results.
        if isinstance(result, (kz.RolledBackError, kz.RuntimeInconsistency)):
            continue
        if isinstance(result, kz.KazooException):
            path = operations[index].path
            return TransactionFailed(index, path, library_error(result, path))
    return None
