"""The group in ZooKeeper, as a rebalance reads and changes it.

Invariant: every reading leaves the given watch on all nodes that it read, missing ones included; a
claim takes all or nothing and needs the member's own registration in the current session.
"""

from collections.abc import Iterable, Mapping, Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry import groups, paths, topics
from zkbroker.registry.groups import StreamSubscription
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import NoNode, Settable, ZkSession
from zkbroker.zookeeper.errors import ClaimBlocked


class ZkGroupStore:
    """A group in ZooKeeper, as one member sees it.

    Args:
        session: a started session, the member's own.
        group: name of the group.
        consumer_id: the member; unique in the group.
    """

    def __init__(self, session: ZkSession, group: str, consumer_id: str) -> None:
        self.session = session
        self._group = group
        self.consumer_id = consumer_id

    def register(self, subscription: StreamSubscription) -> None:
        groups.register_consumer(self.session, self._group, self.consumer_id, subscription)

    def unregister(self) -> None:
        groups.unregister_consumer(self.session, self._group, self.consumer_id)

    def subscriptions(self, watch: Settable) -> dict[str, StreamSubscription | None]:
        """Return the subscription of every member; None for one that has not written it yet."""
        return groups.subscriptions(self.session, self._group, watch)

    def topics(self, watch: Settable) -> list[str]:
        return topics.list_topics(self.session, watch)

    def partitions(self, names: Sequence[str], watch: Settable) -> dict[str, list[int]]:
        """Return the partitions of topics; a topic that does not exist has none."""
        found: dict[str, list[int]] = {}
        nodes = self.session.get_many([paths.topic(name) for name in names], [watch] * len(names))
        for name, node in zip(names, nodes, strict=True):
            found[name] = []
            if node is None:
                # Reading a missing node leaves no watch: watch its creation, and read once more.
                if self.session.exists(paths.topic(name), watch) is not None:
                    watch.set()
                continue
            try:
                found[name] = list(topics.decode_assignment(name, node[0]))
            except RegistryError:
                # Created empty and not filled yet: the watch fires when it is.
                continue
        return found

    def watch_brokers(self, watch: Settable) -> None:
        try:
            self.session.children(paths.BROKER_IDS, watch)
        except NoNode:
            self.session.exists(paths.BROKER_IDS, watch)

    def claim(self, wanted: Mapping[PartitionKey, str]) -> None:
        """Become the owner of all of the partitions.

        Raises:
            ClaimBlocked: one is owned by another member; nothing was claimed.
            SessionLost: the member is not registered any more.
        """
        groups.claim(self.session, self._group, self.consumer_id, wanted)

    def still_blocked(self, blocked: ClaimBlocked, watch: Settable) -> bool:
        """Whether the owner node that blocked the claim still exists."""
        return self.session.exists(blocked.path, watch) is not None

    def release(self, partitions: Iterable[PartitionKey]) -> None:
        groups.release(self.session, self._group, self.consumer_id, partitions)
