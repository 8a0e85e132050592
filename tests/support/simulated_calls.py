"""The interface of `ZkSession` over a simulated server.

A session says when its requests are carried out, and what may happen on their way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.zookeeper import NodeExists, NodeStat, NoNode, TransactionFailed


class ServerCalls(ABC):
    """The requests of a session."""

    server: SimZooKeeper
    session_id: int

    @abstractmethod
    def fired(self, watch: Any) -> None:
        """A watch fired at the server."""

    @abstractmethod
    def _read(self, execute: Callable[[], Any], *paths: str) -> Any:
        """Carry out a request that changes nothing."""

    @abstractmethod
    def _write(self, execute: Callable[[], Any], *paths: str) -> Any:
        """Carry out a change."""

    def _find(self, path: str, watch: Any) -> tuple[bytes, NodeStat]:
        found = self.server.get(path)
        self.server.watch(path, "data", self, watch)
        return found

    def _find_all(self, asked: Sequence[tuple[str, Any]]) -> list[tuple[bytes, NodeStat] | None]:
        return [
            self._find(path, watch) if path in self.server.nodes else None for path, watch in asked
        ]

    def _look(self, path: str, watch: Any) -> NodeStat | None:
        self.server.watch(path, "data", self, watch)
        return self.server.get(path)[1] if path in self.server.nodes else None

    def get(self, path: str, watch: Any = None) -> tuple[bytes, NodeStat]:
        return self._read(lambda: self._find(path, watch), path)

    def exists(self, path: str, watch: Any = None) -> NodeStat | None:
        return self._read(lambda: self._look(path, watch), path)

    def children(self, path: str, watch: Any = None) -> list[str]:
        def execute() -> list[str]:
            found = self.server.children(path)
            self.server.watch(path, "children", self, watch)
            return found

        return self._read(execute, path)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        def execute() -> str:
            made = self.server.numbered(path) if sequential else path
            # The node belongs to the session at the time of execution.
            self.server.create(made, data, self.session_id if ephemeral else 0, parents)
            return made

        return self._write(execute, path)

    def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        def execute() -> NodeStat:
            self.server.set(path, data, version)
            return self.server.get(path)[1]

        return self._write(execute, path)

    def ensure_path(self, path: str) -> None:
        try:
            self._write(lambda: self.server.create(path, parents=True), path)
        except NodeExists:
            pass

    def delete(self, path: str, version: int = -1, *, missing_ok: bool = False) -> None:
        try:
            self._write(lambda: self.server.delete(path, version), path)
        except NoNode:
            if not missing_ok:
                raise

    def transaction(self, operations: Sequence[Any]) -> None:
        refused = self.transactions([operations])[0]
        if refused is not None:
            raise refused

    def transactions(self, batches: Sequence[Sequence[Any]]) -> list[TransactionFailed | None]:
        if not batches:
            return []
        asked = (batch[0].path for batch in batches)
        return self._write(lambda: self._transact(batches), *asked)

    def _transact(self, batches: Sequence[Sequence[Any]]) -> list[TransactionFailed | None]:
        return [self.server.transaction(batch, self.session_id) for batch in batches]
