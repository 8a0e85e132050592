"""What is known of a cluster at one moment; immutable, replaced as a whole."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from zkbroker.errors import ClientError, ProtocolError
from zkbroker.network import BrokerConnection
from zkbroker.runtime import Event


class NoBrokersAvailable(ClientError):
    """None of the brokers that are known can be reached."""


class BrokerUnavailable(ClientError):
    """One broker is not registered or cannot be reached."""


class BrokerAddress(NamedTuple):
    """Where a broker listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition and the id of the broker that leads it; None while there is none."""

    topic: str
    partition: int
    leader: int | None


Partitions = tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class View:
    """One reading of a source.

    Attributes:
        brokers: the live brokers by id.
        topics: the partitions of each topic asked for, by number; or the error it has.
    """

    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)
    topics: Mapping[str, Partitions | ProtocolError] = field(default_factory=dict)


class Connector(Protocol):
    """Opens connections for a source; the cluster's own, so that it needs none of its settings."""

    def dial(self, host: str, port: int) -> BrokerConnection:
        """Open a connection of the source's own; raise `NetworkError` when that fails."""

    def get(self, address: BrokerAddress, lane: str) -> BrokerConnection:
        """Return the cluster's shared connection; raise `BrokerUnavailable` when there is none."""


class Source(Protocol):
    """Where a cluster learns of brokers and topics.

    `start` and `read` are called by one task at a time, the others by any. All may wait for the
    network, for a bounded time.
    """

    def start(self, connector: Connector, changed: Event) -> None:
        """Connect; `changed` is set from then on whenever reading again would tell more."""

    def read(self, topics: Collection[str]) -> View:
        """Read the brokers and the given topics, without creating any.

        Raises:
            ZkbrokerError: the source cannot be read now.
        """

    def all_topics(self) -> list[str] | None:
        """Return the names of all topics, sorted; None to have a broker asked."""

    def only_connection(self) -> BrokerConnection | None:
        """Return the one connection that serves for everything; None where there are many."""

    def close(self) -> None:
        """Release what `start` took."""
