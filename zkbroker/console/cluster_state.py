"""The state of a cluster as seen by its collector: readers fill it, views show it.

Invariant: only its collector writes it, between two publications; unknown values are None.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from zkbroker.admin.broker_queries import LogDirectory
from zkbroker.admin.topics import TopicDescription
from zkbroker.console.sampling import Look
from zkbroker.errors import ZkbrokerError
from zkbroker.types import PartitionKey


class GroupStorage(Enum):
    """The storage of a group; the values are used in URLs."""

    COORDINATOR = "coordinator"
    ZOOKEEPER = "zookeeper"


GroupKey = tuple[GroupStorage, str]


class BrokerListener(NamedTuple):
    """One listener of a broker."""

    name: str
    protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A broker that is, or was, registered.

    Args:
        since_ms: when it registered.
    """

    id: int
    host: str
    port: int
    rack: str | None
    listeners: tuple[BrokerListener, ...] = ()
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """Data of a broker's admin page; rates are since the previous reading.

    Args:
        bytes_in_s: of incoming messages; `bytes_out_s` and `messages_in_s` likewise.
        cpu: share of one core.
    """

    version: str | None = None
    bytes_in_s: float | None = None
    bytes_out_s: float | None = None
    messages_in_s: float | None = None
    cpu: float | None = None
    resident_bytes: int | None = None
    connections: int | None = None


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member of a group."""

    id: str
    client_id: str | None
    host: str | None
    owns: tuple[PartitionKey, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A group's commit for a partition."""

    offset: int
    metadata: str | None = None


@dataclass(slots=True)
class SeenGroup:
    """A group as last described; `described_ms` is 0 before the first time.

    Args:
        coordinator: id of the broker that keeps it.
        topics: its topics beside those with offsets.
    """

    kind: GroupStorage
    name: str
    coordinator: int | None = None
    described_ms: int = 0
    state: str | None = None
    members: tuple[SeenMember, ...] = ()
    offsets: Mapping[PartitionKey, GroupOffset] = field(default_factory=dict)
    owners: Mapping[PartitionKey, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    error: str | None = None

    @contextmanager
    def described(self, now_ms: int) -> Iterator[None]:
        """Record when the group was described, within this block, and any error."""
        self.described_ms, self.error = now_ms, None
        try:
            yield
        except ZkbrokerError as error:
            self.error = str(error)


@dataclass(slots=True)
class ClusterState:
    """A cluster as its collector sees it.

    Args:
        brokers: all registered since the console started.
        alive: ids of those registered now.
        topics: by name.
        internal: names of the brokers' own topics.
        epochs: leader epochs of partitions.
        settings: topic → its own settings; None while unknown.
        min_isr: topic → `min.insync.replicas`.
        sizes: bytes of the largest replica of each partition.
        growth: topic → bytes a second, computed from sizes.
        troubles: name of a failed question → reason.
        generation: a generation other than 0.8 and later, where offsets are positions in bytes.
    """

    cluster_id: str | None = None
    controller: int | None = None
    zookeeper: str | None = None
    brokers: dict[int, SeenBroker] = field(default_factory=dict)
    alive: frozenset[int] = frozenset()
    topics: dict[str, TopicDescription] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()
    epochs: dict[PartitionKey, int] = field(default_factory=dict)
    settings: dict[str, Mapping[str, str]] | None = None
    min_isr: dict[str, int] = field(default_factory=dict)
    looks: dict[PartitionKey, Look] = field(default_factory=dict)
    directories: dict[int, list[LogDirectory]] = field(default_factory=dict)
    sizes: dict[PartitionKey, int] = field(default_factory=dict)
    growth: dict[str, float] = field(default_factory=dict)
    groups: dict[GroupKey, SeenGroup] = field(default_factory=dict)
    facts: dict[int, BrokerFacts] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    generation: str | None = None

    def note_trouble(self, question: str, failures: Collection[str], text: str) -> None:
        """Record why a question was not answered; without failures, clear it.

        Args:
            question: its name among the troubles.
            failures: a reason for each broker that did not answer; the first three are shown.
            text: the data that cannot be seen.
        """
        if failures:
            self.troubles[question] = f"{text}: {'; '.join(list(failures)[:3])}"
        else:
            self.troubles.pop(question, None)

    def end_of(self, key: PartitionKey) -> int | None:
        """Return the end of a partition; None while unknown."""
        look = self.looks.get(key)
        return None if look is None else look.end

    def lag(self, key: PartitionKey, offset: int) -> int | None:
        """Return the messages from an offset on; None while the end is unknown."""
        end = self.end_of(key)
        return None if end is None else max(0, end - offset)

    @property
    def all_seen(self) -> bool:
        """Whether the end of every partition with a leader has been read."""
        return all(self.looks[key].seen_ms for key in self.led())

    def led(self) -> list[PartitionKey]:
        """Return the partitions that a broker serves now."""
        return [
            (name, each.partition)
            for name, topic in self.topics.items()
            for each in topic.partitions
            if each.leader is not None and each.available
        ]
