"""The sticky assignor: a balanced assignment that moves as few partitions as possible.

Each member sends the leader the partitions that it held (`user data`, in the Java client's form):

    v1   previous:[topic:string partitions:[int32]] generation:int32       v0   without generation

Invariants: no member could take over a partition, directly or through a chain of other members,
from one that has two or more partitions more than itself; a partition moves only if that needs it.
"""

import itertools
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.consumer.group.assignors import (
    ClusterPartitions,
    MemberAssignment,
    MemberSubscription,
)
from zkbroker.protocol import MalformedFrame, codec
from zkbroker.protocol.consumer_protocol import TopicPartitions, flatten, group_by_topic
from zkbroker.protocol.schema import array, int32
from zkbroker.types import PartitionKey

_USER_DATA_VERSION = 1
_VERSION = struct.Struct(">h")


@dataclass(slots=True)
class StickyUserData:
    """The partitions that a member held, and their generation."""

    previous: list[TopicPartitions] = array(TopicPartitions)
    generation: int = int32(since=1, default=-1)


class StickyAssignor:
    """Keeps assignments balanced and stable; one object for each member."""

    name = "sticky"

    def __init__(self) -> None:
        self._held: tuple[PartitionKey, ...] = ()
        self._generation = -1

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the partitions that this member held last."""
        held = StickyUserData(group_by_topic(self._held), self._generation)
        return codec.encode_bytes(held, _USER_DATA_VERSION)

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        """Remember the partitions that this member holds now."""
        self._held = assignment.partitions
        self._generation = generation

    def assign(
        self, cluster: ClusterPartitions, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, MemberAssignment]:
        """Keep held partitions, deal out the rest, then balance."""
        sharing = _Sharing(cluster, members)
        sharing.keep(_previous(members))
        sharing.deal()
        sharing.even_out()
        return {m: MemberAssignment(tuple(held)) for m, held in sharing.held.items()}


class _Sharing:
    """One assignment in the making."""

    def __init__(
        self, cluster: ClusterPartitions, members: Mapping[str, MemberSubscription]
    ) -> None:
        self.held: dict[str, list[PartitionKey]] = {member: [] for member in sorted(members)}
        self._topics = {member: subscription.topics for member, subscription in members.items()}
        self._takers: dict[str, list[str]] = {}
        for member in self.held:
            for topic in self._topics[member]:
                self._takers.setdefault(topic, []).append(member)
        # those with the fewest takers first, while these still have few partitions
        self._free = sorted(
            (partition for topic in self._takers for partition in cluster.partitions(topic)),
            key=lambda partition: (len(self._takers[partition[0]]), partition),
        )
        self._kept: set[PartitionKey] = set()

    def keep(self, previous: Mapping[PartitionKey, str]) -> None:
        """Leave a member the partitions that it held and still subscribes to."""
        free = []
        for partition in self._free:
            member = previous.get(partition)
            if member is not None and partition[0] in self._topics[member]:
                self.held[member].append(partition)
                self._kept.add(partition)
            else:
                free.append(partition)
        self._free = free

    def deal(self) -> None:
        """Give each free partition to its subscriber with the fewest partitions."""
        for partition in self._free:
            takers = self._takers[partition[0]]
            member = min(takers, key=lambda taker: (len(self.held[taker]), taker))
            self.held[member].append(partition)
        self._free = []

    def even_out(self) -> None:
        """Move partitions from members with many to members with few, along the shortest path."""
        while (path := self._path()) is not None:
            for giver, taker in itertools.pairwise(path):
                self._move(giver, taker)

    def _path(self) -> list[str] | None:
        """Return the members along which one partition each has to move, None when balanced."""
        by_burden = sorted(self.held, key=lambda member: (-len(self.held[member]), member))
        for giver in by_burden:
            limit = len(self.held[giver]) - 2
            if limit < len(self.held[by_burden[-1]]):
                return None  # no member has so few
            path = self._shortest_path(giver, limit)
            if path is not None:
                return path
        return None

    def _shortest_path(self, giver: str, limit: int) -> list[str] | None:
        came_from: dict[str, str | None] = {giver: None}
        queue = deque([giver])
        while queue:
            member = queue.popleft()
            takers = {
                taker
                for topic in {partition[0] for partition in self.held[member]}
                for taker in self._takers[topic]
                if taker not in came_from
            }
            for taker in sorted(takers, key=lambda each: (len(self.held[each]), each)):
                came_from[taker] = member
                if len(self.held[taker]) <= limit:
                    path = [taker]
                    while (previous := came_from[path[-1]]) is not None:
                        path.append(previous)
                    return path[::-1]
                queue.append(taker)
        return None

    def _move(self, giver: str, taker: str) -> None:
        """Move one partition, preferably one that was not kept."""
        wanted = [p for p in self.held[giver] if p[0] in self._topics[taker]]
        partition = max(wanted, key=lambda p: (p not in self._kept, p))
        self.held[giver].remove(partition)
        self.held[taker].append(partition)


def _previous(members: Mapping[str, MemberSubscription]) -> dict[PartitionKey, str]:
    """Return partition → previous holder; of several claims the latest generation counts."""
    claims: dict[PartitionKey, tuple[int, str]] = {}
    for member in sorted(members):
        data = _decode(members[member].user_data)
        for partition in flatten(data.previous):
            known = claims.get(partition)
            if known is None or data.generation > known[0]:
                claims[partition] = (data.generation, member)
    return {partition: member for partition, (_, member) in claims.items()}


def _decode(data: bytes | None) -> StickyUserData:
    """Read user data of either version; other user data keeps no partitions.

    Members of kafka-python 3 put the version before it, as an int16, which Java's do not.
    """
    given = data or b""
    for version in (1, 0):
        for form in (given, given.removeprefix(_VERSION.pack(version))):
            try:
                read, end = codec.decode(StickyUserData, version, form)
            except MalformedFrame:
                continue
            # Other forms may begin like this one; only this one ends here.
            if end == len(form):
                return read
    return StickyUserData()
