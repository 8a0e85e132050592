"""Notices of changes below one node: each is read once, and old ones are deleted.

Invariants: the watch is set before a notice is read, so that no later one is missed. Notices are
deleted 15 minutes after they were written, whichever broker wrote them, as genuine brokers do; a
failed deletion is repeated after the next change.
"""

import logging

from zkbroker.errors import RegistryError
from zkbroker.registry.optional_nodes import children
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

KEPT_MS = 15 * 60 * 1000


class Notices:
    """The notices below a node, as one reader sees them.

    Args:
        session: a started session.
        parent: the node; it is created if it is missing.
    """

    def __init__(self, session: ZkSession, parent: str) -> None:
        self._session = session
        self._parent = parent
        self._written_ms: dict[str, int] = {}

    def read_new(self, watch: Settable) -> list[tuple[str, bytes]]:
        """Return path and content of each notice that was not read before.

        Args:
            watch: set when there are others.

        Raises:
            RegistryError: ZooKeeper does not answer; the notices are read again.
        """
        names = children(self._session, self._parent, watch)
        present = [f"{self._parent}/{name}" for name in names]
        new = [path for path in present if path not in self._written_ms]
        nodes = zip(new, self._session.get_many(new), strict=True)
        found = {path: node for path, node in nodes if node is not None}
        for gone in self._written_ms.keys() - set(present):
            del self._written_ms[gone]
        self._written_ms |= {path: stat.ctime_ms for path, (_, stat) in found.items()}
        return [(path, data) for path, (data, _) in found.items()]

    def purge(self) -> None:
        """Delete old notices."""
        oldest_ms = self._session.runtime.now_ms() - KEPT_MS
        for path, written_ms in list(self._written_ms.items()):
            if written_ms < oldest_ms:
                try:
                    self._session.delete(path, missing_ok=True)
                except RegistryError as error:
                    logger.warning("old notice not deleted path=%s error=%s", path, error)
                else:
                    del self._written_ms[path]
