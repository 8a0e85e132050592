"""Which brokers get the partitions of a new topic.

Rule (the genuine brokers' own, as in Kafka 0.8 to 2.x): over the brokers in order, the first
replica of partition p goes to `(start + p) % n` with a random start; further replicas are shifted
by a step that grows each time the partitions have gone round. Where every broker names its rack,
the order takes one broker of each rack in turn, and the replicas of a partition take as many racks
as there are.

Invariants: replicas of a partition are on different brokers; over whole rounds each broker leads
equally many partitions.
"""

import random
from collections.abc import Mapping

from zkbroker.errors import ErrorCode, ProtocolError

_chance = random.SystemRandom()


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int = 1,
    *,
    start_broker: int | None = None,
    first_partition: int = 0,
    rack_aware: bool = True,
) -> dict[int, list[int]]:
    """Assign partitions to brokers.

    Args:
        brokers: id → rack, None where the broker names none; racks count only when all name one.
        partitions: how many to assign.
        replication_factor: replicas of each.
        start_broker: the broker from which to count; where a topic grows, the first one of its
            partition 0, so that it goes on as it was begun. A random one by default.
        first_partition: number of the first of them; above 0 when a topic grows.
        rack_aware: False ignores racks.

    Returns:
        Partition → broker ids, the preferred leader first.

    Raises:
        ProtocolError: INVALID_REPLICATION_FACTOR when there are fewer brokers than replicas.
    """
    if replication_factor > len(brokers) or not brokers:
        raise ProtocolError(
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    aware = rack_aware and len(racks) == len(brokers)
    order = alternate_racks(racks) if aware else sorted(brokers)
    if start_broker is None:
        start, shift = _chance.randrange(len(order)), _chance.randrange(len(order))
    else:
        # The place among the ids, also where the order is that of racks: as genuine brokers do.
        start = shift = next(
            (index for index, broker in enumerate(sorted(brokers)) if broker >= start_broker), 0
        )
    assignment: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        if aware:
            assignment[partition] = _spread_over_racks(
                order, racks, first, shift, replication_factor
            )
        else:
            others = (_other(first, shift + n, len(order)) for n in range(replication_factor - 1))
            assignment[partition] = [order[first], *(order[index] for index in others)]
    return assignment


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """Order brokers so that racks take turns: `{0: a, 1: a, 2: b}` gives 0, 2, 1."""
    waiting = {
        rack: sorted(broker for broker, at in racks.items() if at == rack)
        for rack in sorted(set(racks.values()))
    }
    order: list[int] = []
    while len(order) < len(racks):
        order += [brokers.pop(0) for brokers in waiting.values() if brokers]
    return order


def _other(first: int, shift: int, count: int) -> int:
    """Index of a further replica: never `first` itself."""
    return (first + 1 + shift % (count - 1)) % count


def _spread_over_racks(
    order: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> list[int]:
    chosen = [order[first]]
    used = {racks[order[first]]}
    rack_count = len(set(racks.values()))
    step = 0
    while len(chosen) < replication_factor:
        broker = order[_other(first, shift * rack_count + step, len(order))]
        step += 1
        # A rack again only after every rack has a replica, a broker never again.
        if broker in chosen or (racks[broker] in used and len(used) < rack_count):
            continue
        chosen.append(broker)
        used.add(racks[broker])
    return chosen
