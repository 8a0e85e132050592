"""The rules for topics, wherever they are made or changed: names, partitions, replicas.

Brokers, which are asked over the wire, and the tools, which write to ZooKeeper, check the same
things with the same words. Source of the rules and texts: `AdminUtils`, `AdminZkClient` and
`AdminManager` of Kafka 0.8 to 2.x.

    name             1-249 characters of [a-zA-Z0-9._-], neither `.` nor `..`
    collision        names that differ in `.` and `_` only are one name in metrics
    partitions       1 to `MAX_PARTITIONS`
    replicas         at least 1, at most as many as there are live brokers, each on another broker
    assignment       partitions in sequence, all with the same number of replicas
    racks            all live brokers name one, or none does; see `Racks`

Invariant: nothing is read or written here; a plan that is returned can be written as it is.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from zkbroker.errors import ErrorCode, InvalidTopic, ProtocolError
from zkbroker.registry.assignment import assign_replicas

MAX_NAME = 249
MAX_PARTITIONS = 100_000
MAX_BROKER_ID = 2**31 - 1

Plan = dict[int, tuple[int, ...]]
"""Partition → broker ids, the preferred leader first."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Racks(Enum):
    """What the racks of the brokers count for."""

    REQUIRED = "all brokers name one, or none does"
    USED_IF_COMPLETE = "they count when all brokers name one"
    IGNORED = "they do not count"


def check_topic_name(name: str) -> None:
    """Check that a name can be a topic's.

    Raises:
        InvalidTopic: it cannot; the message says why.
    """
    if not isinstance(name, str):
        raise InvalidTopic(f"a topic name must be text, not {name!r}")
    if not name:
        raise InvalidTopic("a topic name must not be empty")
    if len(name) > MAX_NAME:
        raise InvalidTopic(
            f"topic name {name[:40]}… has {len(name)} characters, at most {MAX_NAME}"
        )
    if name in {".", ".."} or not _NAME.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r} is not of [a-zA-Z0-9._-], or is . or ..")


def check_new_name(name: str, existing: Collection[str]) -> None:
    """Check that a topic of this name can be made beside those that exist.

    Raises:
        InvalidTopic: the name cannot be a topic's, or collides with another in metric names.
        ProtocolError: TOPIC_ALREADY_EXISTS.
    """
    check_topic_name(name)
    if name in existing:
        raise topic_exists(name)
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    colliding = sorted(other for other in existing if other.replace(".", "_") == folded)
    if colliding:
        raise InvalidTopic(f"Topic '{name}' collides with existing topics: {', '.join(colliding)}")


def topic_exists(name: str) -> ProtocolError:
    """Return the error for a topic that is there already."""
    return ProtocolError(f"Topic '{name}' already exists.", code=ErrorCode.TOPIC_ALREADY_EXISTS)


def plan_topic(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    racks: Racks = Racks.REQUIRED,
) -> Plan:
    """Assign the partitions of a new topic.

    Args:
        brokers: live brokers: id → rack, None where it names none.
        partitions: how many.
        replication_factor: replicas of each.
        racks: what the racks count for.

    Raises:
        ProtocolError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or UNKNOWN_SERVER_ERROR
            where only some brokers name a rack.
    """
    _check_count(partitions)
    if replication_factor < 1:
        raise ProtocolError(
            "Replication factor must be larger than 0.", code=ErrorCode.INVALID_REPLICATION_FACTOR
        )
    return _assigned(brokers, partitions, replication_factor, racks)


def plan_growth(
    name: str,
    current: Mapping[int, Sequence[int]],
    total: int,
    brokers: Mapping[int, str | None],
    *,
    assignment: Sequence[Sequence[int]] | None = None,
    racks: Racks = Racks.REQUIRED,
) -> Plan:
    """Assign the partitions that a topic gets in addition.

    Args:
        name: the topic.
        current: its partitions.
        total: how many it is to have.
        brokers: live brokers: id → rack, None where it names none.
        assignment: brokers of each added partition; chosen by the rule for a topic when None.
        racks: what the racks count for.

    Returns:
        the added partitions only.

    Raises:
        ProtocolError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT,
            or UNKNOWN_SERVER_ERROR where only some brokers name a rack.
    """
    if total == len(current):
        raise ProtocolError(
            f"Topic already has {total} partitions.", code=ErrorCode.INVALID_PARTITIONS
        )
    if total < len(current):
        raise ProtocolError(
            f"Topic currently has {len(current)} partitions, which is higher than the "
            f"requested {total}.",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    _check_count(total)
    first = current.get(0) or ()
    if assignment is None:
        return _assigned(
            brokers,
            total - len(current),
            len(first) or 1,
            racks,
            start_broker=first[0] if first else None,
            first_partition=len(current),
        )
    added = range(len(current), total)
    if len(assignment) != len(added):
        raise ProtocolError(
            f"Increasing the number of partitions by {len(added)} but "
            f"{len(assignment)} assignments provided.",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    given = dict(zip(added, assignment, strict=True))
    return _checked(given, len(current), brokers, len(first) or None)


def check_assignment(assignment: Mapping[int, Sequence[int]], live: Collection[int] | None) -> Plan:
    """Check an assignment that was given for a new topic.

    Args:
        assignment: partition → broker ids.
        live: the brokers that may be named; None for any, as the tools that write to ZooKeeper
            allow it: a broker that is named starts to serve when it comes.

    Raises:
        ProtocolError: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
    """
    return _checked(assignment, 0, live, None)


def _check_count(partitions: int) -> None:
    if partitions < 1:
        raise ProtocolError(
            f"Number of partitions must be larger than 0, not {partitions}.",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    if partitions > MAX_PARTITIONS:
        raise ProtocolError(
            f"Number of partitions must be at most {MAX_PARTITIONS}, not {partitions}.",
            code=ErrorCode.INVALID_PARTITIONS,
        )


def some_without_rack(brokers: Mapping[int, str | None]) -> list[int]:
    """Return the brokers that name no rack where others do.

    Args:
        brokers: id → rack, None where the broker names none.
    """
    without = sorted(broker for broker, rack in brokers.items() if rack is None)
    return without if len(without) < len(brokers) else []


def check_racks(brokers: Mapping[int, str | None]) -> None:
    """Check that all brokers name their rack, or none does.

    Args:
        brokers: id → rack, None where the broker names none.

    Raises:
        ProtocolError: some do (-1).
    """
    without = some_without_rack(brokers)
    if without:
        raise ProtocolError(
            "Not all brokers have rack information for replica rack aware assignment: set "
            f"broker.rack on brokers {', '.join(map(str, without))} too, or on none; the tools "
            "take --disable-rack-aware.",
            code=ErrorCode.UNKNOWN_SERVER_ERROR,
        )


def _assigned(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    racks: Racks,
    *,
    start_broker: int | None = None,
    first_partition: int = 0,
) -> Plan:
    if racks is Racks.REQUIRED:
        check_racks(brokers)
    # Also refuses more replicas than there are brokers.
    assigned = assign_replicas(
        brokers,
        partitions,
        replication_factor,
        start_broker=start_broker,
        first_partition=first_partition,
        rack_aware=racks is not Racks.IGNORED,
    )
    return {number: tuple(replicas) for number, replicas in assigned.items()}


def _checked(
    assignment: Mapping[int, Sequence[int]],
    first: int,
    live: Collection[int] | None,
    replication_factor: int | None,
) -> Plan:
    numbers = sorted(assignment)
    if numbers != list(range(first, first + len(numbers))):
        raise _refused("Partitions should be a consecutive 0-based integer sequence.")
    _check_count(first + len(numbers))
    expected = len(assignment[first]) if replication_factor is None else replication_factor
    for number in numbers:
        replicas = assignment[number]
        if not replicas:
            raise _refused(f"Cannot have replication factor of 0 for partition id {number}.")
        if len(set(replicas)) != len(replicas):
            raise _refused(
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {number}."
            )
        if min(replicas) < 0:
            raise _refused(f"Partition id {number} names broker {min(replicas)}, below 0.")
        if max(replicas) > MAX_BROKER_ID:
            raise _refused(
                f"Partition id {number} names broker {max(replicas)}, above {MAX_BROKER_ID}."
            )
        unknown = sorted(set(replicas) - set(live)) if live is not None else []
        if unknown:
            raise _refused(
                f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))} for "
                f"partition id {number}; live ones are {', '.join(map(str, sorted(live or ())))}."
            )
        if len(replicas) != expected:
            raise _refused(
                f"Inconsistent replication factor between partitions: {expected} for the first, "
                f"{len(replicas)} for partition id {number}."
            )
    return {number: tuple(assignment[number]) for number in numbers}


def _refused(text: str) -> ProtocolError:
    return ProtocolError(text, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
