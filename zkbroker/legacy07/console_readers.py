"""Reads a 0.7 cluster for the console: brokers, partitions, positions, groups and messages.

Invariant: nothing is written; all requests to a broker go one after the other over one connection.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.errors import CorruptMessage
from zkbroker.legacy07.cluster import Cluster07
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import entries, messages
from zkbroker.registry import groups, legacy07, paths
from zkbroker.registry.legacy07_groups import committed_positions, parse_subscription
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07, PartitionKey
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NoNode

_TIMEOUT_MS = 10_000
_MAX_FILES = 1000


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A message in a log.

    Args:
        position: of its entry, in bytes.
        inside: its index in a compressed set; 0 without compression.
        next_position: next position to read; for all but the last message in a set, the set itself.
        payload: None if it cannot be read.
        magic: of its format.
        codec: the compression, empty for none.
        error: why it cannot be read.
    """

    position: int
    inside: int
    next_position: int
    payload: bytes | None
    magic: int
    codec: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The state of a group in ZooKeeper.

    Args:
        members: consumer id → topics; empty for a pattern.
        owners: partition → thread of a consumer.
        positions: partition → next position in bytes.
    """

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owners: Mapping[PartitionKey, str] = field(default_factory=dict)
    positions: Mapping[PartitionKey, int] = field(default_factory=dict)


class Observer07:
    """Reads a 0.7 cluster.

    Args:
        session: a started session under its registry; it is not closed here.
        runtime: of the connections.
    """

    def __init__(self, session: ZkSession, runtime: Runtime) -> None:
        self.cluster = Cluster07(session=session, runtime=runtime, socket_timeout_ms=_TIMEOUT_MS)
        self._session = session
        self._asking = runtime.lock()

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return host and port of the brokers that are up."""
        return legacy07.brokers(self._session)

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic on brokers that are up."""
        return {
            name: list(legacy07.partitions(self._session, name))
            for name in legacy07.topics(self._session)
        }

    def broker_of(self, partition: int) -> int:
        """Return the broker of a partition, which never changes."""
        return Partition07.from_number(partition).broker

    def offset(self, topic: str, partition: int, time_ms: int) -> int | None:
        """Return a position; see `Cluster07.offset`."""
        with self._asking:
            return self.cluster.offset(topic, Partition07.from_number(partition), time_ms)

    def range(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first position of a log and its end."""
        start = self.offset(topic, partition, EARLIEST_TIME)
        return start or 0, self.offset(topic, partition, LATEST_TIME) or 0

    def files(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """Return the range of each file of a log, the oldest first."""
        name = Partition07.from_number(partition)
        with self._asking:
            consumer = self.cluster.consumer(name.broker)
            found = sorted(consumer.offsets(topic, name.number, LATEST_TIME, _MAX_FILES))
        # An empty file begins where it ends.
        return list(pairwise(found)) or [(each, each) for each in found]

    def read(self, topic: str, partition: int, position: int) -> tuple[list[LogMessage], int]:
        """Return the messages of one fetch, and the next position; no messages at the end of a log.

        Raises:
            ProtocolError: the position is not in the log, or the first message there is damaged.
            NetworkError: the broker does not answer.
        """
        name = Partition07.from_number(partition)
        with self._asking:
            consumer = self.cluster.consumer(name.broker)
            (fetched,) = consumer.fetch_entries([(topic, name.number, position)])
        if fetched.error is not None:
            raise fetched.error
        found: list[LogMessage] = []
        for entry in entries(fetched.data):
            at, end = position + entry.position, position + entry.end
            codec = Codec(entry.codec).name.lower() if 0 < entry.codec <= Codec.SNAPPY else ""
            try:
                inner = list(messages(fetched.data[entry.position : entry.end], at))
            except CorruptMessage as error:
                found.append(LogMessage(at, 0, end, None, entry.magic, codec, str(error)))
                continue
            found += [
                LogMessage(at, number, each.next_offset, each.payload, entry.magic, codec)
                for number, each in enumerate(inner)
            ]
        return found, fetched.next_offset

    def group(self, name: str) -> GroupFacts:
        """Return the state of a group in ZooKeeper."""
        subscriptions = groups.subscriptions(self._session, name, parse=parse_subscription)
        members = {
            member: tuple(each.streams)
            if each is not None and each.pattern == groups.STATIC
            else ()
            for member, each in subscriptions.items()
        }
        owners: dict[PartitionKey, str] = {}
        for topic in groups.owned_topics(self._session, name):
            names: list[str] = []
            with contextlib.suppress(NoNode):
                names = self._session.children(paths.owners(name, topic))
            nodes = self._session.get_many(
                [f"{paths.owners(name, topic)}/{each}" for each in names]
            )
            for each, node in zip(names, nodes, strict=True):
                # Other forms belong to another generation.
                with contextlib.suppress(ValueError):
                    if node is not None:
                        owners[topic, Partition07.parse(each)] = node[0].decode("utf-8", "replace")
        return GroupFacts(members, owners, committed_positions(self._session, name))
