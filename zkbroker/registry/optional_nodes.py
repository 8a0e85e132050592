"""Reads nodes that need not exist.

Invariant: a watch is left in every case. For the children of a missing node the node is created,
and read again, so that no child is missed.
"""

from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import NodeStat, Settable
from zkbroker.zookeeper.session import ZkSession


def read_node(
    session: ZkSession, path: str, watch: Settable | None = None
) -> tuple[bytes, NodeStat] | None:
    """Return the data and metadata of a node; None for a missing one."""
    # Unlike a read, this watches a missing node too.
    if watch is not None and session.exists(path, watch) is None:
        return None
    try:
        return session.get(path)
    except NoNode:
        return None


def children(session: ZkSession, path: str, watch: Settable | None = None) -> list[str]:
    """Return the names of the children, sorted; none for a missing node."""
    while True:
        try:
            return session.children(path, watch)
        except NoNode:
            if watch is None:
                return []
            session.ensure_path(path)
