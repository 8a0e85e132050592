"""The topics of a group's member, named or matched by a pattern, and their partitions.

Invariant: nothing here is kept longer than `metadata.max.age.ms`, or after the cluster reports a
change; what could not be read is read again after a pause.
"""

import re
import time
from collections.abc import Callable, Iterable

from zkbroker.client import Cluster
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.arguments import check_topics
from zkbroker.consumer.group.assignors import ClusterPartitions
from zkbroker.errors import UnknownTopicOrPartition
from zkbroker.types import PartitionKey

_INTERNAL_PREFIX = "__"
_CHECK_AGAIN_S = 5.0


class GroupTopics:
    """The subscription of a member.

    Args:
        config: settings.
        cluster: knows topics and partitions.
        notify: called when topics or partitions may have changed; must not wait.
    """

    def __init__(
        self, config: GroupConsumerConfig, cluster: Cluster, notify: Callable[[], None]
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._notify = notify
        self._pattern: re.Pattern[str] | None = None
        self._changed = False
        self.due_at = 0.0
        """When to check again without a change reported, on the monotonic clock."""
        self.names: frozenset[str] = frozenset()
        """The topics that are subscribed."""
        self.unwatch = cluster.watch(self._note_change)

    def subscribe(self, topics: Iterable[str] | str | re.Pattern[str]) -> None:
        """Subscribe to names, or to a pattern: compiled, or a text that begins with `^`.

        Raises:
            InvalidTopic: no topic can have one of the names.
        """
        if isinstance(topics, str) and topics.startswith("^"):
            self._pattern = re.compile(topics)
        elif isinstance(topics, re.Pattern):
            self._pattern = topics
        else:
            self.names = check_topics([topics] if isinstance(topics, str) else topics)
            self._pattern = None
        self.check()

    def clear(self) -> None:
        """Subscribe to nothing."""
        self._pattern = None
        self.names = frozenset()

    @property
    def check_due(self) -> bool:
        """Whether topics or partitions may have changed."""
        return self._changed or time.monotonic() >= self.due_at

    def check(self) -> bool:
        """Match the pattern again; return whether the topics changed.

        Raises:
            ZkbrokerError: the brokers cannot be asked.
        """
        self._changed = False
        self.due_at = time.monotonic() + self._config.metadata_max_age_ms / 1000
        if self._pattern is None:
            return False
        before, self.names = self.names, self._matching(self._pattern)
        return self.names != before

    def check_again(self) -> None:
        """Have a check come soon, after one whose reading failed: no other change may follow."""
        self.due_at = min(self.due_at, time.monotonic() + _CHECK_AGAIN_S)

    def partitions_of(self, topics: Iterable[str]) -> ClusterPartitions:
        """Return the partitions to assign; topics that do not exist are left out.

        Raises:
            ZkbrokerError: the brokers cannot be asked.
        """
        counts: dict[str, int] = {}
        leaders: dict[PartitionKey, int] = {}
        for topic in sorted(topics):
            try:
                partitions = self._cluster.partitions(topic)
            except UnknownTopicOrPartition:
                continue
            counts[topic] = len(partitions)
            for each in partitions:
                if each.leader is not None:
                    leaders[topic, each.partition] = each.leader
        racks = {b.id: b.rack for b in self._cluster.brokers().values() if b.rack is not None}
        return ClusterPartitions(counts, leaders, racks)

    def _matching(self, pattern: re.Pattern[str]) -> frozenset[str]:
        return frozenset(
            topic
            for topic in self._cluster.topics()
            if pattern.match(topic)
            and not (self._config.exclude_internal_topics and topic.startswith(_INTERNAL_PREFIX))
        )

    def _note_change(self) -> None:
        self._changed = True
        self._notify()
