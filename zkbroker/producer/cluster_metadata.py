"""The known cluster, as partitioners see it; nothing here waits."""

from zkbroker.client import BrokerAddress, Cluster, Partitions


class ClusterMetadata:
    """The known brokers, topics and leaders.

    Args:
        cluster: the source; this view changes with it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def partitions_for_topic(self, topic: str) -> Partitions:
        """Return all partitions of a topic by number; none of an unknown topic."""
        return self._cluster.known_partitions(topic) or ()

    def available_partitions_for_topic(self, topic: str) -> Partitions:
        """Return the partitions of a topic that have a leader."""
        return tuple(each for each in self.partitions_for_topic(topic) if each.leader is not None)

    def partition_count_for_topic(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 for an unknown topic."""
        return len(self.partitions_for_topic(topic))

    def nodes(self) -> list[BrokerAddress]:
        """Return the live brokers, by id."""
        return [address for _, address in sorted(self._cluster.brokers().items())]
