"""One reading of a cluster; immutable, replaced as a whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from zkbroker.errors import ClientError, LeaderNotAvailable, ProtocolError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.runtime import Runtime

NO_EPOCH = -1
"""Stands for an unknown leader epoch, which brokers do not check."""


class NoBrokersAvailable(ClientError):
    """None of the known brokers can be reached."""


class BrokerUnavailable(ClientError):
    """One broker is not registered or cannot be reached."""


class BrokerAddress(NamedTuple):
    """Where a broker listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition, with the broker id of its leader; None without a leader.

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
        topics: the partitions by number of each topic asked for, or the topic's error.
    """

    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)
    topics: Mapping[str, Partitions | ProtocolError] = field(default_factory=dict)


class Leaders(Protocol):
    """Leaders of partitions, in a cluster of any generation."""

    @property
    def runtime(self) -> Runtime:
        """What the cluster runs on; for pauses between two tries."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the known leader of a partition; never waits."""

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change of leaders; returns a function that ends it."""

    def refresh(self, topics: list[str] | None = None) -> None:
        """Read the leaders again.

        Raises:
            ZkbrokerError: the source cannot be read.
        """

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        """Return the error that says why a partition has no leader, as far as is known."""


class PartitionLeaders(Leaders, Protocol):
    """The part of `Cluster` that reading partitions needs: leaders, and connections to them."""

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the known leader epoch, else `NO_EPOCH`; never waits."""

    def connection(self, broker_id: int, lane: str = "") -> BrokerConnection:
        """Return a broker's connection of this lane, which no other lane's long poll blocks.

        Raises:
            BrokerUnavailable: it is not registered or cannot be reached.
        """
