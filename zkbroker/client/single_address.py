"""One address of a TCP load balancer: every request goes to the broker that answers there.

Invariant: there is one connection, since a second one might reach another broker. A partition has a
leader only if the broker behind this connection hosts it; ListOffsets shows that, since a broker
refuses it for partitions that it does not host. Brokers forward nothing.
"""

from collections.abc import Collection

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.list_offsets import LATEST_TIME, list_offsets
from zkbroker.client.metadata_source import ask, parse_address, view_of
from zkbroker.client.view import (
    BrokerAddress,
    BrokerUnavailable,
    NoBrokersAvailable,
    Partitions,
    View,
)
from zkbroker.errors import NotLeaderForPartition, ProtocolError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.zookeeper.nodes import Settable

THE_BROKER = -1
"""Id that stands for the broker behind the address, whose own id is not known."""


class SingleAddressSource:
    """Finds the cluster behind one address.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        host, port = parse_address(address)
        self._broker = BrokerAddress(THE_BROKER, host, port)
        self._read_from: BrokerConnection | None = None
        self._brokers: AnyBroker | None = None
        self._changed: Settable | None = None

    def start(self, brokers: AnyBroker, changed: Settable) -> None:
        self._brokers = brokers
        self._changed = changed

    def read(self, topics: Collection[str]) -> View:
        connection = self._connection()
        self._read_from = connection
        view = view_of(ask(connection, topics), topics)
        found: dict[str, Partitions | ProtocolError] = {}
        for topic, partitions in view.topics.items():
            found[topic] = (
                partitions
                if isinstance(partitions, ProtocolError)
                else self._hosted(connection, topic, partitions)
            )
        return View({THE_BROKER: self._broker}, found)

    def _hosted(
        self, connection: BrokerConnection, topic: str, partitions: Partitions
    ) -> Partitions | ProtocolError:
        latest = {(topic, each.partition): LATEST_TIME for each in partitions}
        answers = list_offsets(connection, latest)
        hosted = {
            number for (_, number), found in answers.items() if not isinstance(found, ProtocolError)
        }
        if not hosted:
            return NotLeaderForPartition(
                f"the broker behind {connection.address} hosts no partition of topic {topic}, and "
                "brokers forward nothing: give zookeeper.connect or metadata.broker.list instead "
                "of broker.address, or host the topic there"
            )
        return tuple(
            each._replace(leader=THE_BROKER if each.partition in hosted else None, leader_epoch=-1)
            for each in partitions
        )

    def all_topics(self) -> list[str] | None:
        return None

    def only_connection(self) -> BrokerConnection:
        connection = self._connection()
        if connection is not self._read_from:
            # Another broker, with other partitions, may answer now.
            assert self._changed is not None
            self._changed.set()
        return connection

    def _connection(self) -> BrokerConnection:
        assert self._brokers is not None
        try:
            return self._brokers.connections.get(self._broker, "")
        except BrokerUnavailable as error:
            raise NoBrokersAvailable(
                f"no broker answers behind broker.address={self._broker.host}:{self._broker.port}: "
                f"start one, or correct the address: {error}"
            ) from error

    def close(self) -> None:
        self._read_from = None
