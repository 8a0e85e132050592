"""Where a topic of a source goes: its name in the target, and which partition a message takes.

    identity        the number that it had
    same count      the same, since one rule that spreads keys puts them there anyway
    another count   by key; without a key the number that it had, modulo the count
    source of 0.7   broker and number together, modulo the count: there are no keys

Invariant: messages of one partition that go to one partition keep their order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zkbroker.client import Cluster
from zkbroker.consumer.legacy07 import Cluster07
from zkbroker.mirror.config import MirrorConfig, SourceConfig
from zkbroker.mirror.paths import goes_round
from zkbroker.mirror.target import Target
from zkbroker.mirror.topic_admin import TopicAdmin, WireTopics, ZooKeeperTopics
from zkbroker.producer import ClusterMetadata, DefaultPartitioner, Partitioner
from zkbroker.producer.partitioners import sees_whole_message
from zkbroker.producer.plugins import resolve
from zkbroker.types import Partition07


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic goes.

    Args:
        topic: its name in the target.
        partitions: how many it has there.
        identity: whether numbers of partitions are kept.
    """

    topic: str
    partitions: int
    identity: bool


class Routes:
    """Routes of one source.

    Args:
        config: of the mirror.
        source: which.
        cluster: its brokers.
        target: where to.
    """

    def __init__(
        self, config: MirrorConfig, source: SourceConfig, cluster: Cluster, target: Target
    ) -> None:
        self._config = config
        self._prefix = config.prefix(source)
        self._cluster = cluster
        self._target = target
        self.admin = _topic_admin(source, cluster)
        self._topics: set[str] = set()
        self._partitioner: Partitioner = resolve("partitioner", target.settings.partitioner)
        self._own_rule = type(self._partitioner) is not DefaultPartitioner
        self._whole = sees_whole_message(self._partitioner)
        self._view = ClusterMetadata(target.cluster)

    def skips(self, topic: str) -> bool:
        """Whether a topic is not mirrored, whatever the filter says."""
        if topic in (self._config.offset_syncs_topic, self._config.exactly_once_topic):
            return True
        return goes_round(topic, self._prefix, self._config.target_name)

    def find(self, topic: str, partition: int) -> Route:
        """Return where a topic goes; it is made where that is asked for.

        Raises:
            ZkbrokerError: the target does not answer, or cannot have the topic.
        """
        name = self._prefix + topic
        self._topics.add(topic)
        if self._config.identity_partitions:
            assert self.admin is not None
            count = self._target.count_like(name, partition, self.admin, topic)
            return Route(name, count, identity=True)
        count = self._target.count(name)
        if isinstance(self._cluster, Cluster07):
            return Route(name, count, identity=False)
        same = not self._own_rule and len(self._cluster.partitions(topic)) == count
        return Route(name, count, identity=same)

    def chooser(self, route: Route, partition: int) -> Callable[[bytes | None, bytes | None], int]:
        """Return what chooses a partition by key and value.

        Args:
            route: where the topic goes.
            partition: the number in the source.
        """
        count, topic = route.partitions, route.topic
        rule: Any = self._partitioner
        if route.identity:
            return lambda key, value: partition
        if self._whole:
            return lambda key, value: rule.partition(topic, key, key, value, value, self._view)
        without_key = spread(partition) % count
        own = self._own_rule

        def choose(key: bytes | None, value: bytes | None) -> int:
            return int(rule.partition(key, count)) if own or key is not None else without_key

        return choose

    def follow(self) -> None:
        """Bring the topics that were mirrored in line with the source's."""
        if self.admin is None:
            return
        for topic in sorted(self._topics):
            self._target.follow(self._prefix + topic, self.admin, topic)

    def close(self) -> None:
        """Release what it took."""
        if self.admin is not None:
            self.admin.close()


def _topic_admin(source: SourceConfig, cluster: Cluster) -> TopicAdmin | None:
    """Return the way to a source's topics; None in 0.7, where topics have no settings."""
    if isinstance(cluster, Cluster07):
        return None
    if source.by_coordinator or not source.zookeeper:
        return WireTopics(cluster)
    return ZooKeeperTopics(source.zookeeper, cluster)


def spread(partition: int) -> int:
    """Return a number that spreads partitions of a source, the same one for ever."""
    if isinstance(partition, Partition07):
        return partition.broker + partition.number
    return partition
