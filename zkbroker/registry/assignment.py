"""Assignment of replicas to brokers, exactly as genuine brokers do it.

    brokers sorted (or racks interleaved), n of them, start and shift random
    first replica of partition p     brokers[(start + p) % n]
    further replicas j = 0, 1, …     brokers[(first + 1 + (shift + j) % (n - 1)) % n]
    shift grows by one every n partitions, so that followers spread over all brokers

Invariant: a pure function; no broker holds two replicas of a partition, and no rack two while there
is a rack without one.
"""

import random
from collections.abc import Mapping

from zkbroker.errors import ErrorCode, ProtocolError


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_broker: int | None = None,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Assign the replicas of new partitions.

    Args:
        brokers: live broker → rack. Racks count when every broker has one.
        partitions: how many to assign.
        replication_factor: replicas of each.
        start_broker: holds the first replica of partition 0; random when not given or not live.
        first_partition: number of the first partition to assign, when partitions are added.

    Returns:
        partition → broker ids, the preferred leader first.

    Raises:
        ProtocolError: INVALID_REPLICATION_FACTOR (38), there are not enough brokers.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise ProtocolError(
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if len(racks) < len(brokers):
        racks = {broker: str(broker) for broker in brokers}
        ordered = sorted(brokers)
    else:
        ordered = interleave(racks)
    count = len(ordered)
    start = random.randrange(count)  # noqa: S311 - no secret
    shift = random.randrange(count)  # noqa: S311 - no secret
    if start_broker in ordered:
        start = shift = ordered.index(start_broker)
    rack_count = len(set(racks.values())) if len(set(racks.values())) < count else 1
    assigned: dict[int, tuple[int, ...]] = {}
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        replicas = [ordered[first]]
        step = 0
        while len(replicas) < replication_factor:
            candidate = ordered[(first + 1 + (shift * rack_count + step) % (count - 1)) % count]
            step += 1
            used = {racks[broker] for broker in replicas}
            if candidate not in replicas and (
                racks[candidate] not in used or len(used) == len(set(racks.values()))
            ):
                replicas.append(candidate)
        assigned[number] = tuple(replicas)
    return assigned


def interleave(racks: Mapping[int, str]) -> list[int]:
    """Order brokers so that neighbours stand in different racks: one of each rack in turn."""
    queues = [
        sorted(broker for broker, its_rack in racks.items() if its_rack == rack)
        for rack in sorted(set(racks.values()))
    ]
    ordered: list[int] = []
    for turn in range(max(map(len, queues), default=0)):
        ordered.extend(queue[turn] for queue in queues if turn < len(queue))
    return ordered
