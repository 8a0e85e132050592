"""The routes of a source's topics: the name in the target, and the partition of a message.

    identity           the source partition's number
    same partitions    the same number, since the same partitioner would choose it anyway
    other partitions   by key; without a key the source partition's number, modulo the count

Invariant: messages of one partition that go to the same partition keep their order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.loop_guard import would_loop
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.target import MirrorTarget
from zkbroker.producer import ClusterMetadata
from zkbroker.producer.partitioners import sees_whole_message


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic goes.

    Args:
        topic: its name in the target.
        partitions: its partitions there.
        identity: whether partition numbers are kept.
    """

    topic: str
    partitions: Sequence[int]
    identity: bool


class Routes:
    """Routes of one source."""

    def __init__(self, config: MirrorConfig, source: MirrorSource, target: MirrorTarget) -> None:
        self._config = config
        self._prefix = config.prefix(source.config)
        self._source = source
        self._target = target
        self.admin = source.topic_admin()
        self._topics: set[str] = set()
        self._partitioner: Any = target.partitioner
        self._whole = sees_whole_message(self._partitioner)
        self._view = ClusterMetadata(target.cluster)

    def skips(self, topic: str) -> bool:
        """Whether a topic is not mirrored, whatever the filter says."""
        if topic in (self._config.offset_syncs_topic, self._config.exactly_once_topic):
            return True
        return would_loop(topic, self._prefix, self._config.target_name)

    def find(self, topic: str, partition: int) -> Route:
        """Return the route of a topic; create the topic if configured.

        Raises:
            ZkbrokerError: the target does not answer, or the topic cannot be created.
        """
        name = self._prefix + topic
        self._topics.add(topic)
        target = self._target
        if self._config.identity_partitions:
            assert self.admin is not None
            count = target.count_like(name, partition, self.admin, topic)
            return Route(name, range(count), identity=True)
        ours = target.partitions(name)
        # Compare as texts: partition 0-1 of one generation is not partition 1 of another.
        same = not target.own_partitioner and (
            list(map(str, self._source.partitions(topic))) == list(map(str, ours))
        )
        return Route(name, ours, identity=same)

    def chooser(self, route: Route, partition: int) -> Callable[[bytes | None, bytes | None], int]:
        """Return a function that chooses a partition by key and value."""
        partitions, topic = route.partitions, route.topic
        count = len(partitions)
        rule = self._partitioner
        if route.identity:
            return lambda key, value: partition
        if self._whole:
            return lambda key, value: partitions[
                rule.partition(topic, key, key, value, value, self._view)
            ]
        without_key = partitions[self._source.ordinal(partition) % count]
        own = self._target.own_partitioner

        def choose(key: bytes | None, value: bytes | None) -> int:
            if rule is None or (key is None and not own):
                return without_key
            return partitions[int(rule.partition(key, count))]

        return choose

    def follow(self) -> None:
        """Synchronize the mirrored topics with the source's."""
        if self.admin is None:
            return
        for topic in sorted(self._topics):
            self._target.follow(self._prefix + topic, self.admin, topic)

    def close(self) -> None:
        """Release its resources."""
        if self.admin is not None:
            self.admin.close()
