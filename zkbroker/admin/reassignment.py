"""Reassignments and preferred-replica elections: requested in ZooKeeper, done by the controller.

    /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}
    /admin/preferred_replica_election
        {"version":1,"partitions":[{"topic":"t","partition":0}]}
    /config/topics/[t]  "leader.replication.throttled.replicas":"0:1,0:2"    (partition:broker)
                        "follower.replication.throttled.replicas":"0:3"
    /config/brokers/[n] "leader.replication.throttled.rate":"100000"         (bytes a second)
                        "follower.replication.throttled.rate":"100000"

The forms are those of the genuine tools, so that either may finish what the other began.

Invariants: everything is checked before anything is written; there is one reassignment at a time;
throttles are set before the reassignment, and removed once all of it is over. The
controller alone changes an assignment.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry import paths, topics
from zkbroker.registry.broker_configs import broker_config, set_broker_config
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.node_json import read_json
from zkbroker.registry.operator_requests import read_requests
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import BadVersion, NodeExists, NoNode

Target = Mapping[PartitionKey, Sequence[int]]
_Throttled = str | int
"""A topic by its name, or a broker by its id."""
_Change = tuple[dict[str, str], dict[str, str]]
"""The throttle that something had, empty without one, and the one that was set."""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

MAX_REQUEST_BYTES = 1_000_000
"""Limit for one ZooKeeper node (jute.maxbuffer is 1 MiB)."""


class MoveState(Enum):
    """State of a partition's reassignment; the values are the genuine tool's words."""

    DONE = "completed successfully"
    RUNNING = "is still in progress"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReassignmentStatus:
    """State of a reassignment.

    Args:
        partitions: of each partition.
        throttles_removed: whether throttles were removed, because all of it is over.
    """

    partitions: Mapping[PartitionKey, MoveState]
    throttles_removed: bool


def encode_target(target: Target) -> bytes:
    """Return the JSON of a reassignment, of a file or a node."""
    return _encode(
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in target.items()
    )


def encode_partitions(partitions: Iterable[PartitionKey]) -> bytes:
    """Return the JSON of a preferred-replica election."""
    return _encode({"topic": topic, "partition": partition} for topic, partition in partitions)


def decode_target(text: str | bytes) -> dict[PartitionKey, tuple[int, ...]]:
    """Read the JSON of a reassignment.

    Raises:
        ConfigError: it is invalid, names a partition twice, or is impossible.
    """
    target: dict[PartitionKey, tuple[int, ...]] = {}
    try:
        for each in read_json(text)["partitions"]:
            key = str(each["topic"]), int(each["partition"])
            if key in target:
                raise ConfigError(f"partition {_shown(key)} is named twice")
            target[key] = tuple(int(broker) for broker in each["replicas"])
            if set(each.get("log_dirs") or ()) - {"any"}:
                raise ConfigError(
                    f"partition {_shown(key)}: the directories of replicas cannot be chosen; "
                    'leave log_dirs out, or name "any"'
                )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            'this is no reassignment: give {"version":1,"partitions":[{"topic":"t","partition":0,'
            f'"replicas":[1,2]}}]}} ({error})'
        ) from error
    for key, replicas in target.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise ConfigError(f"partition {_shown(key)} needs different brokers: {list(replicas)}")
    return target


def decode_partitions(text: str | bytes) -> list[PartitionKey]:
    """Read the JSON of an election.

    Raises:
        ConfigError: it is invalid.
    """
    try:
        return [
            (str(each["topic"]), int(each["partition"])) for each in read_json(text)["partitions"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            'these are not partitions: give {"partitions":[{"topic":"t","partition":0}]} '
            f"({error})"
        ) from error


def current_assignment(
    session: ZkSession, names: Sequence[str] | None = None
) -> dict[PartitionKey, tuple[int, ...]]:
    """Return the replicas of the partitions of some topics; of all if none is named.

    Raises:
        ConfigError: one of them does not exist.
    """
    found = topics.assignments(session, names)
    for name in names or ():
        if name not in found:
            raise ConfigError(f"there is no topic {name}")
    return {
        (name, partition): tuple(replicas)
        for name, of_topic in found.items()
        for partition, replicas in of_topic.items()
    }


def execute(
    session: ZkSession, target: Target, *, throttle: int | None = None
) -> dict[PartitionKey, tuple[int, ...]]:
    """Request a reassignment.

    Args:
        session: a started session.
        target: partition → its new replicas.
        throttle: most bytes a second that each broker copies; None for no limit.

    Returns:
        The previous replicas of these partitions: the target of a rollback.

    Raises:
        ConfigError: a partition does not exist, or a broker does not run.
        ClientError: a reassignment is under way.
    """
    if not target:
        raise ConfigError("there is nothing to reassign: the plan names no partition")
    data = _bounded(encode_target(target))
    current = current_assignment(session, sorted({topic for topic, _ in target}))
    _check(session, target, current)
    if session.exists(paths.REASSIGN_PARTITIONS) is not None:
        raise _under_way()
    before = {key: current[key] for key in target}
    throttled: dict[_Throttled, _Change] = {}
    if throttle is not None:
        throttled = _set_throttles(session, target, before, throttle)
    try:
        session.create(paths.REASSIGN_PARTITIONS, data, parents=True)
    except NodeExists:
        _put_back(session, throttled)
        raise _under_way() from None
    return before


def verify(session: ZkSession, target: Target) -> ReassignmentStatus:
    """Return the state of a reassignment, and remove its throttles once all of it is over."""
    # Read the request first, so that a move that ends meanwhile counts as in progress, not failed.
    asked = read_requests(session).reassignment or {}
    found = topics.assignments(session, sorted({topic for topic, _ in target}))
    partitions: dict[PartitionKey, MoveState] = {}
    for key, replicas in target.items():
        present = found.get(key[0], {}).get(key[1])
        if key in asked:
            partitions[key] = MoveState.RUNNING
        elif present is not None and tuple(present) == tuple(replicas):
            partitions[key] = MoveState.DONE
        else:
            partitions[key] = MoveState.FAILED
    over = MoveState.RUNNING not in partitions.values() and not asked
    return ReassignmentStatus(partitions, over and remove_throttles(session, target))


def cancel(session: ZkSession, rollback: Target) -> list[PartitionKey]:
    """Revert partitions that are being reassigned.

    The request then names the old replicas, which have all the data, and the controller only drops
    the new ones. A genuine controller does not read a request again, and finishes it.

    Args:
        session: a started session.
        rollback: the result of `execute`.

    Returns:
        The reverted partitions; finished ones stay as they are.

    Raises:
        ClientError: no reassignment is under way.
    """
    while True:
        try:
            data, stat = session.get(paths.REASSIGN_PARTITIONS)
        except NoNode:
            raise ClientError("no reassignment is under way: there is nothing to cancel") from None
        asked = decode_target(data)
        turned = [key for key in asked if key in rollback]
        wanted = {key: tuple(rollback.get(key, replicas)) for key, replicas in asked.items()}
        # The request changed: the controller has finished a partition; read again.
        with contextlib.suppress(BadVersion, NoNode):
            session.set(paths.REASSIGN_PARTITIONS, encode_target(wanted), stat.version)
            return turned


def elect_preferred(
    session: ZkSession, partitions: Sequence[PartitionKey] | None = None
) -> list[PartitionKey]:
    """Request that the first replica of partitions, or of all, lead them; return the partitions.

    Raises:
        ConfigError: one of them does not exist.
        ClientError: an election is under way.
    """
    known = current_assignment(
        session, None if partitions is None else sorted({topic for topic, _ in partitions})
    )
    chosen = sorted(known) if partitions is None else list(dict.fromkeys(partitions))
    for key in chosen:
        if key not in known:
            raise ConfigError(f"there is no partition {_shown(key)}")
    if not chosen:
        raise ConfigError("there is no partition to elect a leader for")
    try:
        session.create(
            paths.PREFERRED_REPLICA_ELECTION, _bounded(encode_partitions(chosen)), parents=True
        )
    except NodeExists:
        raise ClientError(
            "a preferred-replica election is under way: wait until it is over"
        ) from None
    return chosen


def is_throttled(session: ZkSession, topic: str) -> bool:
    """Whether a reassignment throttles a topic's replicas."""
    return not {LEADER_REPLICAS, FOLLOWER_REPLICAS}.isdisjoint(topics.topic_config(session, topic))


def remove_throttles(session: ZkSession, target: Target) -> bool:
    """Remove the throttles of all brokers, and those of the topics of a reassignment.

    Returns:
        Whether there were any.
    """
    removed = False
    with contextlib.suppress(NoNode):
        for name in session.children(paths.BROKER_CONFIGS):
            if name.isdecimal():
                config = broker_config(session, int(name))
                if _drop(config, LEADER_RATE, FOLLOWER_RATE):
                    set_broker_config(session, int(name), config)
                    removed = True
    for topic in sorted({topic for topic, _ in target}):
        config = topics.topic_config(session, topic)
        if _drop(config, LEADER_REPLICAS, FOLLOWER_REPLICAS):
            with contextlib.suppress(NoNode):
                topics.set_topic_config(session, topic, config)
                removed = True
    return removed


def throttled_replicas(target: Target, current: Target) -> dict[str, tuple[str, str]]:
    """Return the replicas that a throttle applies to.

    Returns:
        Topic → the replicas that are read (the present ones) and those that are written (the new
        ones), each as `partition:broker,…`.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, partition), replicas in target.items():
        before = current[topic, partition]
        coming = [broker for broker in replicas if broker not in before]
        if coming:
            read, written = found.setdefault(topic, ([], []))
            read += [f"{partition}:{broker}" for broker in before]
            written += [f"{partition}:{broker}" for broker in coming]
    return {topic: (",".join(read), ",".join(written)) for topic, (read, written) in found.items()}


def _set_throttles(
    session: ZkSession, target: Target, current: Target, rate: int
) -> dict[_Throttled, _Change]:
    if rate < 1:
        raise ConfigError(f"throttle {rate} is not allowed: give bytes a second, at least 1")
    wanted: dict[_Throttled, dict[str, str]] = {}
    for topic, (read, written) in throttled_replicas(target, current).items():
        wanted[topic] = {LEADER_REPLICAS: read, FOLLOWER_REPLICAS: written}
    taking_part = {b for key in target for b in (*current[key], *target[key])}
    for broker in sorted(taking_part):
        wanted[broker] = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    changes: dict[_Throttled, _Change] = {}
    for each, throttle in wanted.items():
        config = _config(session, each)
        changes[each] = {key: config[key] for key in throttle if key in config}, throttle
        _set_config(session, each, config | throttle)
    return changes


def _put_back(session: ZkSession, changes: Mapping[_Throttled, _Change]) -> None:
    """Undo throttles after another reassignment came first, which may have throttles of its own.

    Rates of brokers stay if there were none: the other may have set the same ones later, and they
    have no effect on topics that are not throttled.
    """
    moved = {topic for topic, _ in read_requests(session).reassignment or ()}
    for each, (before, throttle) in changes.items():
        config = _config(session, each)
        needless = isinstance(each, str) and each not in moved
        if throttle.items() <= config.items() and (before or needless):
            _drop(config, *throttle)
            with contextlib.suppress(NoNode):
                _set_config(session, each, config | before)


def _config(session: ZkSession, each: _Throttled) -> dict[str, str]:
    if isinstance(each, str):
        return topics.topic_config(session, each)
    return broker_config(session, each)


def _set_config(session: ZkSession, each: _Throttled, config: Mapping[str, str]) -> None:
    if isinstance(each, str):
        topics.set_topic_config(session, each, config)
    else:
        set_broker_config(session, each, config)


def _check(session: ZkSession, target: Target, current: Target) -> None:
    live = list_brokers(session)
    for key, replicas in target.items():
        if key not in current:
            raise ConfigError(f"there is no partition {_shown(key)}")
        for broker in replicas:
            # A stopped broker may keep its replicas, but cannot get new ones.
            if broker not in live and broker not in current[key]:
                raise ConfigError(
                    f"partition {_shown(key)}: broker {broker} is not running; running are "
                    f"{', '.join(map(str, live)) or 'none'}"
                )


def _under_way() -> ClientError:
    return ClientError(
        "a reassignment is under way: wait until zkbroker reassign verify shows its end, or "
        "cancel it"
    )


def _drop(config: dict[str, str], *names: str) -> bool:
    dropped = [config.pop(name, None) for name in names]
    return dropped != [None] * len(names)


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_REQUEST_BYTES:
        raise ConfigError(
            f"{len(data)} bytes are too many for a ZooKeeper node: give fewer partitions at a time"
        )
    return data


def _encode(partitions: Iterable[Mapping[str, object]]) -> bytes:
    whole = {"version": 1, "partitions": list(partitions)}
    return json.dumps(whole, separators=(",", ":")).encode()


def _shown(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"
