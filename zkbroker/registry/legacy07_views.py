"""The views of 0.7: which broker shows which partition; kept in the newer generation's registry.

    /legacy07/views/[topic]       persistent, empty: the topic has views
    /legacy07/views/[topic]/[p]   persistent: `N-i`, 0.7 broker N shows partition p as its number i;
                                  `N-i making` until the files of the view are there

Invariant: a partition has one view. The broker of the partition's first replica creates its node
once. The node stays until the topic is deleted, wherever the replicas move: the offsets of 0.7
groups are positions in that one view, under its name `N-i`.

Every function raises RegistryError if ZooKeeper does not answer.
"""

from typing import NamedTuple

from zkbroker.errors import RegistryError
from zkbroker.registry.optional_nodes import children
from zkbroker.registry.paths import LEGACY07_VIEWS as VIEWS
from zkbroker.zookeeper.errors import NodeExists
from zkbroker.zookeeper.session import ZkSession

_MAKING = " making"


class Shown(NamedTuple):
    """The view of a partition: the 0.7 id of its broker, and the partition's number there.

    While a view is `making`, its files may not have been created yet.
    """

    broker_id: int
    number: int
    making: bool = False

    def __str__(self) -> str:
        return f"{self.broker_id}-{self.number}{_MAKING if self.making else ''}"


def declare(session: ZkSession, topic: str) -> None:
    """Note that a topic has views, before the topic is created."""
    session.ensure_path(f"{VIEWS}/{topic}")


def is_declared(session: ZkSession, topic: str) -> bool:
    """Whether a topic has views, on this broker or on others."""
    return session.exists(f"{VIEWS}/{topic}") is not None


def declared(session: ZkSession) -> list[str]:
    """Return the topics that have views."""
    return children(session, VIEWS)


def shown(session: ZkSession, topic: str) -> dict[int, Shown]:
    """Return the view of each partition that has one.

    Raises:
        RegistryError: also if a node is unreadable.
    """
    path = f"{VIEWS}/{topic}"
    names = children(session, path)
    nodes = session.get_many([f"{path}/{name}" for name in names])
    try:
        return {
            int(name): _parse(node[0].decode())
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
    except ValueError as error:
        raise RegistryError(f"{path} holds no view of 0.7: {error}") from error


def claim(session: ZkSession, topic: str, partition: int, view: Shown) -> bool:
    """Create the view of a partition; False if the partition already has one."""
    try:
        session.create(f"{VIEWS}/{topic}/{partition}", str(view).encode(), parents=True)
    except NodeExists:
        return False
    return True


def note_made(session: ZkSession, topic: str, partition: int, view: Shown) -> None:
    """Note that the files of a claimed view exist."""
    session.set(f"{VIEWS}/{topic}/{partition}", str(view._replace(making=False)).encode())


def forget(session: ZkSession, topic: str) -> None:
    """Remove the views of a topic that is deleted."""
    session.delete(f"{VIEWS}/{topic}", recursive=True)


def _parse(text: str) -> Shown:
    name = text.removesuffix(_MAKING)
    broker_id, _, number = name.rpartition("-")
    return Shown(int(broker_id), int(number), name != text)
