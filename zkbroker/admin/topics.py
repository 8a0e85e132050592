"""Topics, as the genuine topic tool sees and changes them: through ZooKeeper.

Invariant: everything is checked before anything is written. What is written takes effect when the
brokers named in it see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError, UnknownTopicOrPartition
from zkbroker.registry import ZkSession, topics
from zkbroker.registry.assignment import assign_replicas
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.errors import NodeExists
from zkbroker.registry.partitions import partition_state

__all__ = [
    "PartitionDescription",
    "TopicDescription",
    "add_partitions",
    "alter_config",
    "create_topic",
    "delete_topic",
    "describe",
    "describe_lines",
    "parse_assignment",
]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition.

    Args:
        leader: id of the broker that serves it; None while none does.
        replicas: ids in the assignment.
        isr: ids in sync.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its own configuration and its partitions in order."""

    topic: str
    config: Mapping[str, str]
    partitions: tuple[PartitionDescription, ...]
    marked_for_deletion: bool = False


def create_topic(
    session: ZkSession,
    topic: str,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    assignment: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str] | None = None,
    rack_aware: bool = True,
) -> None:
    """Create a topic.

    Args:
        session: a started session.
        topic: 1-249 characters of [a-zA-Z0-9._-].
        partitions: how many; not looked at when an assignment is given.
        replication_factor: replicas of each; only 1 can be hosted.
        assignment: partition → broker ids.
        config: the topic's own configuration, such as `retention.ms`.
        rack_aware: whether the brokers' racks count.

    Raises:
        InvalidTopic: the name is not allowed.
        ProtocolError: the topic exists (36), the partitions (37) or the replication factor (38)
            cannot be had.
        ConfigError: a setting is not allowed.
    """
    topics.check_topic_name(topic)
    overrides = dict(config or {})
    LogConfig().with_topic_overrides(overrides)
    if assignment is None:
        if partitions < 1:
            raise ProtocolError(
                f"Number of partitions must be larger than 0, not {partitions}.",
                code=ErrorCode.INVALID_PARTITIONS,
            )
        _check_replication(replication_factor)
        assignment = assign_replicas(
            _racks(session), partitions, replication_factor, rack_aware=rack_aware
        )
    else:
        _check_replication(max(map(len, assignment.values()), default=1))
    try:
        topics.create_topic(session, topic, assignment, overrides)
    except NodeExists as error:
        raise ProtocolError(
            f"Topic '{topic}' already exists.", code=ErrorCode.TOPIC_ALREADY_EXISTS
        ) from error


def add_partitions(
    session: ZkSession,
    topic: str,
    total: int,
    *,
    assignment: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Let a topic grow.

    Args:
        session: a started session.
        topic: its name.
        total: how many partitions it shall have.
        assignment: brokers of the new ones; chosen like the first ones by default.

    Raises:
        UnknownTopicOrPartition: there is no such topic.
        ProtocolError: it has as many or more already (37).
    """
    current = _assignment(session, topic)
    if total <= len(current):
        raise ProtocolError(
            f"The topic {topic} has {len(current)} partitions; their number can only grow.",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    if assignment is None:
        assignment = assign_replicas(
            _racks(session),
            total - len(current),
            start_broker=current[0][0] if current.get(0) else None,
            first_partition=len(current),
        )
    topics.add_partitions(session, topic, assignment)


def alter_config(
    session: ZkSession,
    topic: str,
    *,
    add: Mapping[str, str] | None = None,
    delete: Sequence[str] = (),
) -> dict[str, str]:
    """Change a topic's own configuration; brokers follow at once.

    Returns:
        What it is now.

    Raises:
        UnknownTopicOrPartition: there is no such topic.
        ConfigError: a setting is not allowed, or one to delete is not set.
    """
    _assignment(session, topic)
    config = topics.topic_config(session, topic)
    for key in delete:
        if key not in config:
            raise ConfigError(f"{key} is not set for topic {topic}; set are: {_joined(config)}")
        del config[key]
    config |= add or {}
    LogConfig().with_topic_overrides(config)
    topics.set_topic_config(session, topic, config)
    return config


def delete_topic(session: ZkSession, topic: str) -> None:
    """Mark a topic for deletion; its brokers delete it.

    Raises:
        UnknownTopicOrPartition: there is no such topic.
    """
    _assignment(session, topic)
    topics.mark_for_deletion(session, topic)


def describe(session: ZkSession, names: Sequence[str] = ()) -> list[TopicDescription]:
    """Describe topics in order.

    Args:
        session: a started session.
        names: which; all without any.

    Raises:
        UnknownTopicOrPartition: one of them does not exist.
    """
    marked = set(topics.topics_to_delete(session))
    return [
        TopicDescription(
            name,
            topics.topic_config(session, name),
            tuple(
                _describe_partition(session, name, partition, replicas)
                for partition, replicas in sorted(_assignment(session, name).items())
            ),
            name in marked,
        )
        for name in (sorted(names) or topics.list_topics(session))
    ]


def describe_lines(described: TopicDescription) -> list[str]:
    """Render a description as the genuine topic tool of 0.8 to 2.x does, with its tabs."""
    first = described.partitions[0].replicas if described.partitions else ()
    config = ",".join(f"{key}={value}" for key, value in described.config.items())
    mark = "\tMarkedForDeletion:true" if described.marked_for_deletion else ""
    counts = f"PartitionCount:{len(described.partitions)}\tReplicationFactor:{len(first)}"
    lines = [f"Topic:{described.topic}\t{counts}\tConfigs:{config}{mark}"]
    for each in described.partitions:
        leader = "none" if each.leader is None else each.leader
        replicas = ",".join(map(str, each.replicas))
        isr = ",".join(map(str, each.isr))
        lines.append(
            f"\tTopic: {described.topic}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}"
        )
    return lines


def parse_assignment(text: str) -> dict[int, list[int]]:
    """Parse the genuine tool's form: partitions separated by `,`, their brokers by `:`.

    Raises:
        ConfigError: the text has another form.
    """
    try:
        replicas = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"replica assignment {text!r} is not allowed: give broker ids for each partition, as "
            "in 1,2 or 1:2,2:3"
        ) from None
    for partition, brokers in enumerate(replicas):
        if len(set(brokers)) != len(brokers):
            raise ConfigError(f"partition {partition} names a broker twice: {brokers}")
    return dict(enumerate(replicas))


def _describe_partition(
    session: ZkSession, topic: str, partition: int, replicas: Sequence[int]
) -> PartitionDescription:
    state = partition_state(session, topic, partition)
    leader = None if state is None or state.leader < 0 else state.leader
    isr = () if state is None else tuple(state.isr)
    return PartitionDescription(partition, leader, tuple(replicas), isr)


def _assignment(session: ZkSession, topic: str) -> Mapping[int, Sequence[int]]:
    found = topics.assignment(session, topic)
    if found is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic}")
    return found


def _check_replication(factor: int) -> None:
    if factor != 1:
        raise ProtocolError(
            f"Replication factor: {factor} is not 1: partitions have one replica.",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )


def _racks(session: ZkSession) -> dict[int, str | None]:
    return {broker.id: broker.rack for broker in list_brokers(session).values()}


def _joined(names: Mapping[str, str]) -> str:
    return ", ".join(names) or "none"
