"""The brokers of a 0.7 cluster as a producer sees them: by the registry, or by a list.

    registry   the partitions of a topic are those of all brokers that are up, in numeric order; of
               a topic that nobody has yet, partition 0 of each broker
    list       one place for each broker: it picks the partition itself

Invariant: a message goes only to a broker that was up as far as was known when it was placed.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Self

from zkbroker.client import BrokerAddress, PartitionInfo, Partitions
from zkbroker.client.legacy07 import Cluster07View
from zkbroker.config.legacy07_producer import ProducerConfig07
from zkbroker.errors import LeaderNotAvailable
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07
from zkbroker.zookeeper import ZkSession


class ProducerCluster07:
    """What a producer asks of a cluster, of generation 0.7.

    Args:
        config: of the producer.
        runtime: of the producer.
    """

    def __init__(self, config: ProducerConfig07, runtime: Runtime) -> None:
        self._view: Cluster07View | None = None
        self._session: ZkSession | None = None
        self._known: dict[str, Partitions] = {}
        self._listed = {
            number: BrokerAddress(number, host, port)
            for number, (host, port) in config.brokers().items()
        }
        if config.zookeeper_connect:
            self._session = ZkSession(
                config.zookeeper_connect,
                session_timeout_ms=config.zookeeper_session_timeout_ms,
                connect_timeout_ms=config.zookeeper_connect_timeout_ms,
                runtime=runtime,
            )

    @property
    def chooses_partitions(self) -> bool:
        """Whether requests name partitions; otherwise brokers pick them."""
        return self._session is not None

    def start(self) -> Self:
        """Find the brokers.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self._session is not None:
            self._session.start()
            try:
                self._view = Cluster07View(self._session).start()
            except BaseException:
                self._session.close()
                raise
            self._view.watch(self._changed)
        return self

    def close(self, timeout_s: float = 10.0) -> None:
        """Watch no longer."""
        if self._view is not None:
            self._view.close(timeout_s)
        if self._session is not None:
            self._session.close()

    def _changed(self) -> None:
        self._known = {}

    def brokers(self) -> Mapping[int, BrokerAddress]:
        """Return the brokers that are up, or listed."""
        return self._listed if self._view is None else self._view.brokers()

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker of a partition, None while it is down."""
        assert isinstance(partition, Partition07)
        return partition.broker if partition.broker in self.brokers() else None

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        """Return the error that says that the broker of a partition is down."""
        assert isinstance(partition, Partition07)
        return LeaderNotAvailable(f"broker {partition.broker} of topic {topic} is not up: start it")

    def known_partitions(self, topic: str) -> Partitions | None:
        """Return the partitions of a topic where they are known; never waits."""
        if self._view is None:
            return self._first_of_each(topic)
        return self._known.get(topic)

    def partitions(self, topic: str, *, create: bool = False, timeout_s: float = 0.0) -> Partitions:
        """Return the partitions of a topic.

        Raises:
            LeaderNotAvailable: no broker is up.
            RegistryError: ZooKeeper does not answer.
        """
        found: Partitions = ()
        known = self._known
        if self._view is not None:
            found = tuple(
                PartitionInfo(topic, each, each.broker) for each in self._view.partitions(topic)
            )
        found = found or self._first_of_each(topic)
        if not found:
            raise LeaderNotAvailable("no broker of the 0.7 cluster is up")
        known[topic] = found
        return found

    def _first_of_each(self, topic: str) -> Partitions:
        return tuple(
            PartitionInfo(topic, Partition07(broker, 0), broker)
            for broker in sorted(self.brokers())
        )

    def refresh(self, topics: Collection[str] | None = None) -> None:
        """Read the brokers anew.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self._view is not None:
            self._view.refresh()

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change; returns what ends that."""
        return (lambda: None) if self._view is None else self._view.watch(callback)
