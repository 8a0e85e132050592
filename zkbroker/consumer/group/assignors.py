"""Assignors of the group leader: range, roundrobin, and the base for a user's own.

Invariants: `assign` is a function of its arguments; every partition of a subscribed topic goes to
exactly one member that subscribes to it. Members agree on an assignor by its name, so two
different rules never share a name, and `range`, `roundrobin` and `sticky` mean the same as in any
other client library.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The topics of one member, and its assignor's user data for the leader."""

    topics: frozenset[str]
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The partitions of one member, and the leader's user data for the member's assignor."""

    partitions: tuple[PartitionKey, ...] = ()
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class ClusterPartitions:
    """The partitions to assign.

    Args:
        counts: topic → number of partitions, for topics that exist.
        leaders: partition → leader, where known.
        racks: broker → rack, where known.
    """

    counts: Mapping[str, int]
    leaders: Mapping[PartitionKey, int] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)

    def partitions(self, topic: str) -> list[PartitionKey]:
        """The partitions of a topic in order; none if it does not exist."""
        return [(topic, number) for number in range(self.counts.get(topic, 0))]

    def rack(self, partition: PartitionKey) -> str | None:
        """The rack of the broker that leads a partition; None if unknown."""
        leader = self.leaders.get(partition)
        return None if leader is None else self.racks.get(leader)


class Assignor(Protocol):
    """One assignment strategy; a member keeps one object of it for its whole life."""

    @property
    def name(self) -> str:
        """The protocol name."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the user data to send with this member's subscription."""

    def assign(
        self, cluster: ClusterPartitions, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, MemberAssignment]:
        """Assign the partitions; called at the leader only. A member left out gets none."""

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        """Learn the partitions that this member got."""


class SimpleAssignor(abc.ABC):
    """Base of assignors without user data: implement `name` and `share`."""

    name: str

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """No user data."""
        return None

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: B027 - optional
        """Nothing to remember."""

    def assign(
        self, cluster: ClusterPartitions, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, MemberAssignment]:
        """Assign by `share`, without user data."""
        shares = self.share(cluster, {member: sub.topics for member, sub in members.items()})
        return {member: MemberAssignment(tuple(share)) for member, share in shares.items()}

    @abc.abstractmethod
    def share(
        self, cluster: ClusterPartitions, subscriptions: Mapping[str, frozenset[str]]
    ) -> Mapping[str, Sequence[PartitionKey]]:
        """Return the partitions of each member, by its topics alone."""


class RangeAssignor(SimpleAssignor):
    """Topic by topic: the members in order of their names get consecutive partitions.

    n partitions for m members: each gets n // m, the first n % m one more.
    """

    name = "range"

    def share(
        self, cluster: ClusterPartitions, subscriptions: Mapping[str, frozenset[str]]
    ) -> Mapping[str, Sequence[PartitionKey]]:
        shares: dict[str, list[PartitionKey]] = {member: [] for member in subscriptions}
        for topic in all_topics(subscriptions):
            takers = sorted(m for m, topics in subscriptions.items() if topic in topics)
            each, more = divmod(cluster.counts.get(topic, 0), len(takers))
            partitions = iter(cluster.partitions(topic))
            for rank, member in enumerate(takers):
                for _ in range(each + (rank < more)):
                    shares[member].append(next(partitions))
        return shares


class RoundRobinAssignor(SimpleAssignor):
    """All partitions in order, dealt one by one to the members in order of their names.

    Members that do not subscribe to a partition's topic are skipped.
    """

    name = "roundrobin"

    def share(
        self, cluster: ClusterPartitions, subscriptions: Mapping[str, frozenset[str]]
    ) -> Mapping[str, Sequence[PartitionKey]]:
        shares: dict[str, list[PartitionKey]] = {member: [] for member in subscriptions}
        members = sorted(subscriptions)
        turn = 0
        for topic in all_topics(subscriptions):
            for partition in cluster.partitions(topic):
                while topic not in subscriptions[members[turn % len(members)]]:
                    turn += 1
                shares[members[turn % len(members)]].append(partition)
                turn += 1
        return shares


def all_topics(subscriptions: Mapping[str, frozenset[str]]) -> list[str]:
    """Every topic that has a subscriber, in order of their names."""
    return sorted(frozenset[str]().union(*subscriptions.values()))
