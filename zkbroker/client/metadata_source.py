"""A static list of brokers: Metadata requests to one of them answer every look-up.

Invariants: the list only serves to find a first broker; after its answer the brokers of the cluster
are asked in turn (`any_broker`). So the list may name brokers that are gone, and a broker that is
cut off from the controller does not leave clients with old metadata. Its older answer about a
leader does not replace a newer one.
"""

from collections.abc import Collection, Sequence

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.newest_leaders import NewestLeaders
from zkbroker.client.view import (
    BrokerAddress,
    PartitionInfo,
    Partitions,
    View,
)
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import MetadataRequest, MetadataResponse
from zkbroker.zookeeper.nodes import Settable

# The first version that can ask for a topic without creating it.
NO_CREATION_VERSION = 4


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or 0.7's `id:host:port`.

    Raises:
        ClientError: it is none of these.
    """
    host, _, port = text.strip().rpartition(":")
    prefix, colon, rest = host.partition(":")
    if colon and prefix.isdigit() and not host.startswith("["):
        host = rest
    if not host or not (port.isascii() and port.isdigit()):
        raise ClientError(f"broker address {text!r} is not host:port")
    if not 0 < int(port) < 65_536:
        raise ClientError(f"broker address {text!r}: {port} is no port; give one of 1 to 65535")
    return host.strip("[]"), int(port)


def view_of(response: MetadataResponse, topics: Collection[str]) -> View:
    """Turn an answer into a view of `topics`; a topic missing in the answer is unknown."""
    brokers = {
        broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    found: dict[str, Partitions | ProtocolError] = {
        topic: protocol_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist")
        for topic in topics
    }
    for each in response.topics:
        if each.topic not in found:
            continue
        if each.error_code != ErrorCode.NONE:
            missing = each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            named = f"topic {each.topic}{' does not exist' if missing else ''}"
            found[each.topic] = protocol_error(each.error_code, named)
            continue
        found[each.topic] = tuple(
            sorted(
                PartitionInfo(
                    each.topic,
                    partition.partition,
                    partition.leader if partition.leader in brokers else None,
                    partition.leader_epoch,
                    tuple(partition.replicas),
                    tuple(partition.isr),
                )
                for partition in each.partitions
            )
        )
    return View(brokers, found)


def ask(
    connection: BrokerConnection,
    topics: Collection[str] | None,
    *,
    create: bool = False,
    timeout_s: float | None = None,
) -> MetadataResponse:
    """Send a Metadata request.

    Args:
        connection: to any broker.
        topics: those to read; None for all.
        create: have the broker create those that do not exist.
        timeout_s: how long to wait; the time-out of the connection by default.
    """
    version = connection.best_version(ApiKey.METADATA)
    names: list[str] | None = None if topics is None else sorted(topics)
    if version < NO_CREATION_VERSION and not create and names:
        # Naming a topic would create it; all topics are read instead.
        names = None
    if version == 0 and names is None:
        names = []  # In version 0 an empty list asks for all topics; it cannot ask for none.
    response: MetadataResponse = connection.request(
        MetadataRequest(topics=names, allow_auto_topic_creation=create), version, timeout_s
    )
    return response


class StaticSource:
    """Finds the cluster through a list of brokers.

    Args:
        addresses: `host:port` each; 0.7's `id:host:port` is understood.
    """

    def __init__(self, addresses: Sequence[str] | str) -> None:
        listed = addresses.split(",") if isinstance(addresses, str) else addresses
        found = dict.fromkeys(parse_address(text) for text in listed if text.strip())
        if not found:
            raise ClientError("the list of brokers is empty: give host:port")
        # Negative, unlike the ids of brokers.
        self._bootstrap = [BrokerAddress(-2 - i, *each) for i, each in enumerate(found)]
        self._known: Sequence[BrokerAddress] = ()
        self._newest = NewestLeaders()
        self._brokers: AnyBroker | None = None

    def start(self, brokers: AnyBroker, changed: Settable) -> None:
        self._brokers = brokers

    def read(self, topics: Collection[str]) -> View:
        assert self._brokers is not None
        answer = self._brokers.ask(
            lambda connection, wait_s: ask(connection, topics, timeout_s=wait_s),
            self._known,
            self._bootstrap,
        )
        view = view_of(answer, topics)
        if view.brokers:
            self._known = list(view.brokers.values())
            self._brokers.connections.drop(lambda address: address.id < 0)
        return self._newest.merge(view)

    def all_topics(self) -> list[str] | None:
        return None

    def only_connection(self) -> BrokerConnection | None:
        return None

    def close(self) -> None:
        """Do nothing: the cluster closes its connections."""


def all_topics(connection: BrokerConnection, wait_s: float) -> list[str]:
    """Return the names of all topics."""
    return sorted(each.topic for each in ask(connection, None, timeout_s=wait_s).topics)


def request_creation(connection: BrokerConnection, topic: str, wait_s: float) -> None:
    """Ask for a topic's metadata in a way that creates the topic.

    Raises:
        ProtocolError: it will not be created.
    """
    for each in ask(connection, [topic], create=True, timeout_s=wait_s).topics:
        if each.topic == topic and each.error_code not in (
            ErrorCode.NONE,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            raise protocol_error(each.error_code, f"topic {topic}")
