"""What is known of a cluster at one moment; immutable, replaced as a whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from zkbroker.errors import ClientError, LeaderNotAvailable, ProtocolError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.runtime import Runtime

NO_EPOCH = -1
"""The leader epoch of a partition of which none is known; brokers do not check it then."""


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
    """A partition and the id of the broker that leads it; None while there is none.

    `leader_epoch` grows with each change of the leader; `NO_EPOCH` where the source has none.
    `replicas` and `isr` are broker ids, empty where they are not known.
    """

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


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


class Leaders(Protocol):
    """Which broker leads what, of any generation."""

    @property
    def runtime(self) -> Runtime:
        """What the cluster runs on; for pauses between two tries."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker that leads a partition as far as is known; never waits."""

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change of leaders; returns what ends that."""

    def refresh(self, topics: list[str] | None = None) -> None:
        """Learn again which broker leads what.

        Raises:
            ZkbrokerError: the source cannot be read.
        """

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        """Return the error that says why a partition has no leader, as far as is known."""


class PartitionLeaders(Leaders, Protocol):
    """What reading partitions needs of `Cluster`: leaders, and connections to them."""

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch of that leader, `NO_EPOCH` where it is not known; never waits."""

    def connection(self, broker_id: int, lane: str = "") -> BrokerConnection:
        """Return a connection to a broker that no other lane's long poll holds up.

        Raises:
            BrokerUnavailable: it is not registered or cannot be reached.
        """
