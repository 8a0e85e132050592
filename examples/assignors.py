"""Two custom assignment strategies, for `GroupConsumer(assignors=[...])`.

RandomAssignor gives each partition to a member at random. With RackAssignor every member names its
rack (as user data), and reads from brokers in that rack if possible.
"""

import random
from collections.abc import Mapping, Sequence

from zkbroker.consumer.group.assignors import (
    ClusterPartitions,
    MemberAssignment,
    MemberSubscription,
    SimpleAssignor,
    all_topics,
)
from zkbroker.types import PartitionKey


class RandomAssignor(SimpleAssignor):
    name = "random"

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def share(
        self, cluster: ClusterPartitions, subscriptions: Mapping[str, frozenset[str]]
    ) -> Mapping[str, Sequence[PartitionKey]]:
        shares: dict[str, list[PartitionKey]] = {member: [] for member in subscriptions}
        for topic in all_topics(subscriptions):
            takers = sorted(m for m, topics in subscriptions.items() if topic in topics)
            for partition in cluster.partitions(topic):
                shares[self._rng.choice(takers)].append(partition)
        return shares


class RackAssignor:
    name = "rack"

    def __init__(self, rack: str) -> None:
        self._rack = rack

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        return self._rack.encode()

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        pass

    def assign(
        self, cluster: ClusterPartitions, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, MemberAssignment]:
        racks = {member: (sub.user_data or b"").decode() for member, sub in members.items()}
        shares: dict[str, list[PartitionKey]] = {member: [] for member in sorted(members)}
        for topic in all_topics({member: sub.topics for member, sub in members.items()}):
            takers = [member for member in shares if topic in members[member].topics]
            for partition in cluster.partitions(topic):
                near = [member for member in takers if racks[member] == cluster.rack(partition)]
                chosen = min(near or takers, key=lambda member: (len(shares[member]), member))
                shares[chosen].append(partition)
        return {member: MemberAssignment(tuple(share)) for member, share in shares.items()}
