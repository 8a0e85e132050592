"""Reads the children of a node that need not exist.

Invariant: a watch is left on the node in every case; a missing node is created for it, and read
again, so that no child is missed.
"""

from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession


def children(session: ZkSession, path: str, watch: Settable | None = None) -> list[str]:
    """Return the names of the children, sorted; none for a missing node."""
    while True:
        try:
            return session.children(path, watch)
        except NoNode:
            if watch is None:
                return []
            session.ensure_path(path)
