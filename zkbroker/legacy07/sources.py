"""Kafka 0.7 as the source of a `Cluster`: by the registry in ZooKeeper, or by a list of brokers.

    /brokers/ids                a broker joins, leaves, or comes back elsewhere
    /brokers/topics/T           a broker gets partitions of a topic, or goes away
    /brokers/topics/T/N         the number of partitions of topic T on broker N

A partition belongs to one broker for ever, which counts as its leader. The partition is unavailable
while its broker is down. Partitions of a topic are in numeric order.

Invariant, as in `ZooKeeperSource`: every node that a view was read from has a watch.
"""

from collections.abc import Collection, Mapping

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.view import BrokerAddress, PartitionInfo, Partitions, View
from zkbroker.client.zookeeper_source import ZooKeeperSource
from zkbroker.errors import ErrorCode, ProtocolError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.registry import legacy07 as registry
from zkbroker.types import Partition07
from zkbroker.zookeeper.nodes import Settable


class ZooKeeperSource07(ZooKeeperSource):
    """Finds a 0.7 cluster by its registry; arguments as of `ZooKeeperSource`."""

    def read(self, topics: Collection[str]) -> View:
        brokers = {
            broker: BrokerAddress(broker, host, port)
            for broker, (host, port) in registry.brokers(self.session, self._changed).items()
        }
        return View(brokers, {topic: self._partitions(topic, brokers) for topic in topics})

    def _partitions(
        self, topic: str, brokers: Mapping[int, BrokerAddress]
    ) -> Partitions | ProtocolError:
        found = registry.partitions(self.session, topic, self._changed)
        return tuple(
            PartitionInfo(topic, each, each.broker) for each in found if each.broker in brokers
        ) or protocol_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is on no broker that is up"
        )

    def all_topics(self) -> list[str]:
        return registry.topics(self.session)


class ProducerSource07(ZooKeeperSource07):
    """The same for a producer: a new topic begins as partition 0 on each broker."""

    def _partitions(
        self, topic: str, brokers: Mapping[int, BrokerAddress]
    ) -> Partitions | ProtocolError:
        found = super()._partitions(topic, brokers)
        return first_of_each(topic, brokers) if isinstance(found, ProtocolError) else found


class ListedSource07:
    """A list of 0.7 brokers: each is one destination, and chooses the partition itself.

    Args:
        brokers: host and port by id.
    """

    def __init__(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        self._brokers = {
            number: BrokerAddress(number, host, port) for number, (host, port) in brokers.items()
        }

    def start(self, brokers: AnyBroker, changed: Settable) -> None:
        """Nothing to do: a list never changes."""

    def read(self, topics: Collection[str]) -> View:
        return View(self._brokers, {topic: first_of_each(topic, self._brokers) for topic in topics})

    def all_topics(self) -> list[str]:
        return []

    def only_connection(self) -> BrokerConnection | None:
        return None

    def close(self) -> None:
        """Nothing to do."""


def first_of_each(topic: str, brokers: Collection[int]) -> Partitions | ProtocolError:
    """Return partition 0 of each broker; an error if there is no broker."""
    return tuple(
        PartitionInfo(topic, Partition07(broker, 0), broker) for broker in sorted(brokers)
    ) or protocol_error(ErrorCode.NETWORK_EXCEPTION, "no broker of the 0.7 cluster is up")
