"""Clusters of another generation of Kafka, through a plug-in: positions are bytes.

    shown       brokers, partitions, sizes and growth, groups in ZooKeeper, messages
    not shown   a controller, replicas, settings of topics, counts and times of messages

Invariant: one look asks for at most `POSITIONS_AT_ONCE` ends and describes `GROUPS_AT_ONCE` groups.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from zkbroker.admin.topics import PartitionDescription, TopicDescription
from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.console.cluster_state import (
    ClusterState,
    GroupKey,
    GroupOffset,
    GroupStorage,
    SeenBroker,
    SeenGroup,
    SeenMember,
)
from zkbroker.console.sampling import Look, choose, choose_starts
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.groups import list_groups
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

POSITIONS_AT_ONCE = 250
GROUPS_AT_ONCE = 25


class OtherEntry(Protocol):
    """A message; see the plug-in."""

    @property
    def position(self) -> int: ...
    @property
    def inside(self) -> int: ...
    @property
    def next_position(self) -> int: ...
    @property
    def payload(self) -> bytes | None: ...
    @property
    def magic(self) -> int: ...
    @property
    def codec(self) -> str: ...
    @property
    def error(self) -> str | None: ...


class OtherGroup(Protocol):
    """A group; see the plug-in."""

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def owners(self) -> Mapping[PartitionKey, str]: ...
    @property
    def positions(self) -> Mapping[PartitionKey, int]: ...


class OtherCluster(Protocol):
    """A plug-in's view of a cluster; errors are `ZkbrokerError`."""

    cluster: Cluster

    def brokers(self) -> Mapping[int, tuple[str, int]]: ...
    def topics(self) -> Mapping[str, Sequence[int]]: ...
    def broker_of(self, partition: int) -> int: ...
    def offset(self, topic: str, partition: int, time_ms: int) -> int | None: ...
    def range(self, topic: str, partition: int) -> tuple[int, int]: ...
    def files(self, topic: str, partition: int) -> Sequence[tuple[int, int]]: ...
    def read(
        self, topic: str, partition: int, position: int
    ) -> tuple[Sequence[OtherEntry], int]: ...
    def group(self, name: str) -> OtherGroup: ...


class ConsoleGeneration(Protocol):
    """The plug-in."""

    name: str

    def observe(self, session: ZkSession, runtime: Runtime) -> OtherCluster: ...


class OtherSight:
    """Reads such a cluster, as `collector.BrokerReaders` reads newer ones.

    Args:
        seen: is filled.
        runtime: lets other tasks run.

    `other` is the plug-in's view; None until the cluster is reached.
    """

    def __init__(self, seen: ClusterState, runtime: Runtime) -> None:
        self._seen = seen
        self._runtime = runtime
        self.other: OtherCluster | None = None

    def hurry(self) -> None:
        """Nothing to do: every reading covers all of ZooKeeper."""

    def look(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """Read brokers and partitions."""
        seen, other = self._seen, self.other
        if other is None or session is None:
            return
        found = other.brokers()
        for broker, (host, port) in found.items():
            seen.brokers[broker] = SeenBroker(broker, host, port, None)
        seen.alive = frozenset(found)
        away = sorted(seen.brokers.keys() - seen.alive)
        if away:
            named = ", ".join(map(str, away))
            seen.troubles["brokers"] = (
                f"partitions of brokers {named} are unavailable: the brokers are not registered"
            )
        else:
            seen.troubles.pop("brokers", None)
        topics: dict[str, TopicDescription] = {}
        looks: dict[PartitionKey, Look] = {}
        for name, numbers in other.topics().items():
            described = []
            for number in numbers:
                broker = other.broker_of(number)
                described.append(
                    PartitionDescription(
                        number, broker, (broker,), (broker,), available=broker in seen.alive
                    )
                )
                looks[name, number] = seen.looks.get((name, number)) or Look()
            topics[name] = TopicDescription(name, {}, tuple(described))
        seen.topics, seen.looks = topics, looks

    def look_on(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """Ask for positions, and describe some groups."""
        if self.other is None or session is None:
            return
        self._positions(self.other, now_ms)
        seen = self._seen
        known = [(GroupStorage.ZOOKEEPER, name) for name in list_groups(session)]
        seen.groups = {key: seen.groups.get(key) or SeenGroup(*key) for key in known}
        for group in heapq.nsmallest(
            GROUPS_AT_ONCE, seen.groups.values(), key=lambda group: group.described_ms
        ):
            with group.described(now_ms):
                _describe(self.other, group)

    def look_at(
        self, cluster: Cluster, session: ZkSession | None, key: GroupKey
    ) -> SeenGroup | None:
        """Describe one group now; None if it is not known."""
        group = self._seen.groups.get(key)
        if group is not None and self.other is not None:
            _describe(self.other, group)
        return group

    def _positions(self, other: OtherCluster, now_ms: int) -> None:
        seen = self._seen
        led = seen.led()
        failed: dict[str, None] = {}
        starts = choose_starts(seen.looks, led, now_ms, POSITIONS_AT_ONCE)
        ends = choose(seen.looks, led, now_ms, POSITIONS_AT_ONCE)
        for keys, time_ms in ((starts, EARLIEST_TIME), (ends, LATEST_TIME)):
            for key in keys:
                position = None
                try:
                    position = other.offset(*key, time_ms)
                except ZkbrokerError as error:
                    failed[str(error)] = None
                look = seen.looks[key]
                if time_ms == EARLIEST_TIME:
                    look.saw_start(position, now_ms)
                else:
                    look.saw_end(position, now_ms)
                self._runtime.sleep(0)
        seen.note_trouble("offsets", failed, "positions cannot be read")
        growth: defaultdict[str, float] = defaultdict(float)
        for key, look in seen.looks.items():
            if look.start is not None and look.end is not None:
                seen.sizes[key] = max(0, look.end - look.start)
            growth[key[0]] += look.rate or 0
        seen.sizes = {key: size for key, size in seen.sizes.items() if key in seen.looks}
        seen.growth = dict(growth)


def _describe(other: OtherCluster, group: SeenGroup) -> None:
    found = other.group(group.name)
    owners = {key: thread.rpartition("-")[0] for key, thread in found.owners.items()}
    group.state = "Stable" if found.members else "Empty"
    group.members = tuple(
        SeenMember(
            name, None, None, tuple(sorted(key for key, each in owners.items() if each == name))
        )
        for name in sorted(found.members)
    )
    group.owners = owners
    group.offsets = {key: GroupOffset(position) for key, position in found.positions.items()}
    group.topics = tuple(sorted({topic for each in found.members.values() for topic in each}))
