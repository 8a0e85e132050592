"""A static list of brokers: everything is asked of one of them by Metadata requests.

Invariants: the list only serves to find a first broker; after the first answer the brokers of the
cluster are asked in turn, so that the list may name brokers that are gone, and one broker that was
cut off from the controller does not keep its clients in the past. What such a broker tells of a
leader does not replace what is newer.
"""

import logging
import random
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from zkbroker.client.newest_leaders import NewestLeaders
from zkbroker.client.view import (
    BrokerAddress,
    BrokerConnector,
    BrokerUnavailable,
    NoBrokersAvailable,
    PartitionInfo,
    Partitions,
    View,
)
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    ProtocolError,
    RequestTimedOut,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import MetadataRequest, MetadataResponse
from zkbroker.zookeeper.nodes import Settable

logger = logging.getLogger(__name__)

# The first version in which a reader can say that the topic is not to be created.
NO_CREATION_VERSION = 4
_LANE = "metadata"


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or 0.7's `id:host:port`.

    Raises:
        ClientError: it is none of these.
    """
    host, _, port = text.strip().rpartition(":")
    prefix, colon, rest = host.partition(":")
    if colon and prefix.isdigit() and not host.startswith("["):
        host = rest
    if not host or not port.isdigit():
        raise ClientError(f"broker address {text!r} is not host:port")
    return host.strip("[]"), int(port)


def view_of(response: MetadataResponse, topics: Collection[str]) -> View:
    """Turn an answer into a view of `topics`; those it does not name are unknown."""
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
                )
                for partition in each.partitions
            )
        )
    return View(brokers, found)


def ask(
    connection: BrokerConnection, topics: Collection[str] | None, *, create: bool = False
) -> MetadataResponse:
    """Send a Metadata request.

    Args:
        connection: to any broker.
        topics: those to read; None for all.
        create: have the broker create those that do not exist.
    """
    version = connection.best_version(ApiKey.METADATA)
    names: list[str] | None = None if topics is None else sorted(topics)
    if version < NO_CREATION_VERSION and not create and names:
        # Naming a topic would create it; all topics are read instead.
        names = None
    if version == 0 and names is None:
        names = []  # an empty list asks for all in version 0, which cannot ask for none
    response: MetadataResponse = connection.request(
        MetadataRequest(topics=names, allow_auto_topic_creation=create), version
    )
    return response


class StaticSource:
    """Finds the cluster through a list of brokers.

    Args:
        addresses: `host:port` each; 0.7's `id:host:port` is understood.
    """

    def __init__(self, addresses: Sequence[str] | str) -> None:
        listed = addresses.split(",") if isinstance(addresses, str) else addresses
        self._bootstrap = [parse_address(text) for text in listed if text.strip()]
        if not self._bootstrap:
            raise ClientError("the list of brokers is empty: give host:port")
        self._known: deque[BrokerAddress] = deque()
        self._newest = NewestLeaders()
        self._bootstrap_connection: BrokerConnection | None = None
        self._connector: BrokerConnector | None = None

    def start(self, connector: BrokerConnector, changed: Settable) -> None:
        self._connector = connector

    def read(self, topics: Collection[str]) -> View:
        connection = self._any()
        try:
            view = view_of(ask(connection, topics), topics)
        except (NetworkError, RequestTimedOut) as error:
            # One more try with another broker; a second failure is the caller's to handle.
            connection.close()
            logger.debug("metadata failed broker=%s error=%s", connection.address, error)
            view = view_of(ask(self._any(), topics), topics)
        self._learn(view)
        return self._newest.merge(view)

    def all_topics(self) -> list[str] | None:
        return None

    def only_connection(self) -> BrokerConnection | None:
        return None

    def close(self) -> None:
        self._drop_bootstrap()

    def _learn(self, view: View) -> None:
        if not view.brokers:
            return
        if set(self._known) != set(view.brokers.values()):
            found = list(view.brokers.values())
            random.shuffle(found)
            self._known = deque(found)
        self._drop_bootstrap()

    def _any(self) -> BrokerConnection:
        """Return a connection to the broker whose turn it is, or to the next one in reach."""
        assert self._connector is not None
        for _ in range(len(self._known)):
            address = self._known[0]
            self._known.rotate(-1)
            try:
                return self._connector.get(address, _LANE)
            except BrokerUnavailable as error:
                logger.debug("no metadata from broker=%d error=%s", address.id, error)
        if self._bootstrap_connection is None or self._bootstrap_connection.closed:
            self._bootstrap_connection = first_answering(self._connector, self._bootstrap)
        return self._bootstrap_connection

    def _drop_bootstrap(self) -> None:
        connection, self._bootstrap_connection = self._bootstrap_connection, None
        if connection is not None:
            connection.close()


def all_topics(connection: BrokerConnection) -> list[str]:
    """Ask for the names of all topics."""
    return sorted(each.topic for each in ask(connection, None).topics)


def request_creation(connection: BrokerConnection, topic: str) -> None:
    """Ask for a topic in the way that creates it.

    Raises:
        ProtocolError: it will not be created.
    """
    for each in ask(connection, [topic], create=True).topics:
        if each.topic == topic and each.error_code not in (
            ErrorCode.NONE,
            ErrorCode.LEADER_NOT_AVAILABLE,
        ):
            raise protocol_error(each.error_code, f"topic {topic}")


def first_answering(
    connector: BrokerConnector, addresses: Iterable[tuple[str, int]]
) -> BrokerConnection:
    """Return a connection to the first broker that can be reached.

    Raises:
        NoBrokersAvailable: none can.
    """
    failures: dict[str, str] = {}
    for host, port in dict.fromkeys(addresses):
        try:
            return connector.dial(host, port)
        except (NetworkError, RequestTimedOut) as error:
            failures[f"{host}:{port}"] = str(error)
    raise NoBrokersAvailable(
        "no broker can be reached: "
        + ("; ".join(failures.values()) or "none is registered")
        + ": start one, or correct the addresses"
    )
