"""Which broker hosts each partition, kept up to date.

    /brokers/topics/[t]/partitions/[n]/state   data: written, taken over, gone with its broker

Invariant: every wanted partition is watched, whether its node exists or not; only what changed is
read again.
"""

import logging
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.nodes import NodeStat, Settable
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.session import ZkSession
from zkbroker.registry.watching import Mark, WatchLoop

logger = logging.getLogger(__name__)

Key = tuple[str, int]
States = Mapping[Key, PartitionState]


class StatesWatch(WatchLoop[States]):
    """Keep a view of partition states up to date; see `WatchLoop`.

    Args:
        session: a started session.
        wanted: returns the partitions to watch; `poke` when they change.
        on_change: called with every new view, from the loop's task.
    """

    def __init__(
        self,
        session: ZkSession,
        wanted: Callable[[], Set[Key]],
        on_change: Callable[[States], object],
    ) -> None:
        super().__init__(session, self._look, on_change, name="watch-states")
        self._wanted = wanted
        self._marks_lock = session.runtime.lock()
        self._marked: set[Key] = set()
        self._known: dict[Key, PartitionState | None] = {}

    def _mark(self, key: Key) -> None:
        with self._marks_lock:
            self._marked.add(key)
        self._changed.set()

    def _look(self, watch: Settable) -> States:
        wanted = self._wanted()
        for gone in self._known.keys() - wanted:
            del self._known[gone]
        with self._marks_lock:
            marked, self._marked = self._marked, set()
        try:
            self._read_states(sorted((wanted - self._known.keys()) | (marked & wanted)))
        except RegistryError:
            with self._marks_lock:
                self._marked |= marked
            raise
        return MappingProxyType(
            {key: state for key, state in self._known.items() if state is not None}
        )

    def _read_states(self, keys: list[Key]) -> None:
        nodes = self._session.get_many(
            [paths.partition_state(*key) for key in keys], [Mark(self._mark, key) for key in keys]
        )
        for key, node in zip(keys, nodes, strict=True):
            if node is None and self._session.exists(
                paths.partition_state(*key), Mark(self._mark, key)
            ):
                # It appeared in between; without data no state, so it is read once more.
                self._mark(key)
            self._known[key] = _readable(key, node)


def _readable(key: Key, node: tuple[bytes, NodeStat] | None) -> PartitionState | None:
    if node is None:
        return None
    try:
        return PartitionState.from_json(node[0])
    except RegistryError as error:
        logger.warning("partition state unreadable partition=%s-%d error=%s", *key, error)
        return None
