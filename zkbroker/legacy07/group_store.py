"""A group of Kafka 0.7, for a rebalance.

    /brokers/topics/[topic]/N      number of partitions of a topic on broker N, while it is up

Invariant: as in `ZkGroupStore`. There are no leaders and no replicas: the partitions of a topic are
    those on the brokers that are up, and come and go with them.
"""

from collections.abc import Iterable, Mapping, Sequence

from zkbroker.rebalance.assignor import Shares, range_assign
from zkbroker.rebalance.store import ZkGroupStore
from zkbroker.registry import groups, legacy07
from zkbroker.registry.groups import StreamSubscription
from zkbroker.registry.legacy07_groups import encode_subscription, parse_subscription
from zkbroker.zookeeper import Settable


class GroupStore07(ZkGroupStore):
    """A group in the registry of a 0.7 cluster; partitions are `Partition07`."""

    def register(self, subscription: StreamSubscription) -> None:
        data = encode_subscription(subscription)
        groups.register_member(self.session, self._group, self.consumer_id, data)

    def subscriptions(self, watch: Settable) -> dict[str, StreamSubscription | None]:
        return groups.subscriptions(self.session, self._group, watch, parse=parse_subscription)

    def topics(self, watch: Settable) -> list[str]:
        return legacy07.topics(self.session, watch)

    def partitions(self, names: Sequence[str], watch: Settable) -> dict[str, list[int]]:
        return {name: list(legacy07.partitions(self.session, name, watch)) for name in names}

    def watch_brokers(self, watch: Settable) -> None:
        """Nothing to do: the nodes of its partitions, which go with a broker, are watched."""


def range_assign_07(
    partitions: Mapping[str, Iterable[int]], threads: Mapping[str, Iterable[str]]
) -> Shares:
    """Assign each topic's partitions as members of 0.7 do: 10-0 before 3-0.

    Arguments as of `range_assign`.
    """
    return range_assign(partitions, threads, order=str)
