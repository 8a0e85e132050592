"""Topics, as the genuine topic tool sees and changes them: through ZooKeeper.

Invariant: everything is checked before anything is written. A change takes effect when the brokers
    see it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, UnknownTopicOrPartition
from zkbroker.registry import topics
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.partitions import partition_states
from zkbroker.registry.topic_rules import (
    Racks,
    check_assignment,
    check_new_name,
    plan_growth,
    plan_topic,
    topic_exists,
)
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NodeExists


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition.

    Args:
        leader: id of the broker that serves it; None if none does.
        replicas: ids in the assignment.
        isr: ids in sync, as stored, even while no broker serves the partition.
        available: whether the leader is alive; states that genuine brokers write outlive their
            brokers.
        missing: ids of the ISR that are not registered, while no broker serves the partition: one
            of them has to come back.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    available: bool = True
    missing: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        partition: int,
        leader: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        live: set[int],
    ) -> Self:
        """Describe a partition whose leader is -1 if no broker serves it; `live` are registered."""
        in_sync = tuple(isr)
        available = leader in live
        missing = () if available else tuple(each for each in in_sync if each not in live)
        known = None if leader < 0 else leader
        return cls(partition, known, tuple(replicas), in_sync, available, missing)

    @property
    def under_replicated(self) -> bool:
        """Whether some replicas are out of sync."""
        return len(self.isr) < len(self.replicas)


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
        partitions: how many; ignored if there is an assignment.
        replication_factor: replicas of each.
        assignment: partition → broker ids.
        config: the topic's own configuration, such as `retention.ms`.
        rack_aware: whether the brokers' racks count; all brokers name one then, or none does.

    Raises:
        InvalidTopic: the name is not allowed.
        ProtocolError: the topic exists (36), the partitions (37) or the replication factor (38)
            are not possible.
        ConfigError: a setting is not allowed.
    """
    check_new_name(topic, topics.list_topics(session))
    overrides = dict(config or {})
    LogConfig().with_topic_overrides(overrides)
    plan = (
        plan_topic(
            _racks(session),
            partitions,
            replication_factor,
            racks=Racks.REQUIRED if rack_aware else Racks.IGNORED,
        )
        if assignment is None
        else check_assignment(assignment, None)
    )
    try:
        topics.create_topic(session, topic, plan, overrides)
    except NodeExists:
        raise topic_exists(topic) from None


def add_partitions(
    session: ZkSession,
    topic: str,
    total: int,
    *,
    assignment: Sequence[Sequence[int]] | None = None,
    rack_aware: bool = True,
) -> None:
    """Add partitions to a topic.

    Args:
        session: a started session.
        topic: its name.
        total: the new number of partitions.
        assignment: brokers of each new one; chosen like the first ones by default.
        rack_aware: whether the brokers' racks count; all brokers name one then, or none does.

    Raises:
        UnknownTopicOrPartition: there is no such topic.
        ProtocolError: it has as many or more already (37), or the brokers are not possible (38,
            39).
    """
    current = _assignment(session, topic)
    added = plan_growth(
        topic,
        current,
        total,
        _racks(session),
        assignment=assignment,
        racks=Racks.REQUIRED if rack_aware else Racks.IGNORED,
    )
    topics.add_partitions(session, topic, added)


def alter_config(
    session: ZkSession,
    topic: str,
    *,
    add: Mapping[str, str] | None = None,
    delete: Sequence[str] = (),
) -> dict[str, str]:
    """Change a topic's own configuration; brokers follow at once.

    Returns:
        The new configuration.

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
    """Describe topics, or all of them, in order.

    Raises:
        UnknownTopicOrPartition: one of them does not exist.
    """
    marked = set(topics.topics_to_delete(session))
    live = set(list_brokers(session))
    assigned = {
        name: _assignment(session, name) for name in (sorted(names) or topics.list_topics(session))
    }
    keys = [(name, number) for name, partitions in assigned.items() for number in partitions]
    registered = partition_states(session, keys)
    stored = PartitionStates(session).read(keys)
    partitions: dict[str, list[PartitionDescription]] = {name: [] for name in assigned}
    for key in sorted(keys):
        name, number = key
        leads = registered.get(key)
        state = stored.get(key) or leads
        partitions[name].append(
            PartitionDescription.of(
                number,
                -1 if leads is None else leads.leader,
                assigned[name][number],
                () if state is None else state.isr,
                live,
            )
        )
    return [
        TopicDescription(name, topics.topic_config(session, name), tuple(described), name in marked)
        for name, described in partitions.items()
    ]


def describe_lines(described: TopicDescription) -> list[str]:
    """Render a description as the genuine topic tool of 0.8 to 2.x does, with its tabs.

    A partition that no broker serves has one more field: the missing brokers.
    """
    first = described.partitions[0].replicas if described.partitions else ()
    config = ",".join(f"{key}={value}" for key, value in described.config.items())
    mark = "\tMarkedForDeletion:true" if described.marked_for_deletion else ""
    counts = f"PartitionCount:{len(described.partitions)}\tReplicationFactor:{len(first)}"
    lines = [f"Topic:{described.topic}\t{counts}\tConfigs:{config}{mark}"]
    for each in described.partitions:
        leader = "none" if each.leader is None else each.leader
        replicas = ",".join(map(str, each.replicas))
        isr = ",".join(map(str, each.isr))
        missing = f"\tMissing: {','.join(map(str, each.missing))}" if each.missing else ""
        lines.append(
            f"\tTopic: {described.topic}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}{missing}"
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


def _assignment(session: ZkSession, topic: str) -> Mapping[int, Sequence[int]]:
    found = topics.assignment(session, topic)
    if found is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic}")
    return found


def _racks(session: ZkSession) -> dict[int, str | None]:
    return {broker.id: broker.rack for broker in list_brokers(session).values()}


def _joined(names: Mapping[str, str]) -> str:
    return ", ".join(names) or "none"
