"""One reading of a cluster; immutable, replaced as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zkbroker.errors import ClientError, ProtocolError

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
