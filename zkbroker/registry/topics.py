"""Topics: replica assignment, settings, deletion.

    /brokers/topics/[topic]        {"version":1,"partitions":{"0":[1],"1":[2]}}
    /config/topics/[topic]         {"version":1,"config":{"retention.ms":"1000"}}
    /config/changes/config_change_ see `registry.config_changes`
    /admin/delete_topics/[topic]   empty

Invariant: one transaction creates a topic and its settings; the assignment is changed only under
the node version that was read, so that concurrent writers never lose each other's changes. Brokers
follow changes to these nodes by hand or by genuine tools.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence

from zkbroker.errors import ErrorCode, ProtocolError, RegistryError
from zkbroker.registry import paths
from zkbroker.registry.brokers import ENDPOINTS_SINCE, list_brokers
from zkbroker.registry.config_changes import changed_entity, note_change
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.node_json import int32, read_json, write_json
from zkbroker.registry.optional_nodes import children, read_node
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.zookeeper.errors import BadVersion, NodeExists, NoNode, TransactionFailed
from zkbroker.zookeeper.nodes import Create, Delete, Operation, SetData, Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

Assignment = dict[int, tuple[int, ...]]
"""Partition number → broker ids of its replicas, the preferred leader first."""

_ATTEMPTS = 20


# -- assignment


def encode_assignment(assignment: Mapping[int, Sequence[int]]) -> bytes:
    partitions = {str(number): list(assignment[number]) for number in sorted(assignment)}
    return write_json({"version": 1, "partitions": partitions})


def decode_assignment(name: str, data: bytes) -> Assignment:
    """Read a topic's node.

    Raises:
        RegistryError: it holds no assignment (some tools create it empty and fill it later).
    """
    try:
        partitions = read_json(data)["partitions"]
        found = {
            int32(number): tuple(int32(broker) for broker in brokers)
            for number, brokers in sorted(partitions.items(), key=lambda item: int32(item[0]))
        }
        if any(number < 0 for number in found):
            raise ValueError("a partition below 0")
        if any(min(each, default=0) < 0 or len(set(each)) < len(each) for each in found.values()):
            raise ValueError("a broker below 0 or twice among the replicas of a partition")
        return found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RegistryError(
            f"{paths.topic(name)} holds no replica assignment: {data[:200]!r}"
        ) from error


def list_topics(session: ZkSession, watch: Settable | None = None) -> list[str]:
    """Return the names of all topics, sorted."""
    return children(session, paths.TOPICS, watch)


def assignment(session: ZkSession, name: str) -> Assignment | None:
    """Return a topic's replica assignment, None if there is no such topic.

    Raises:
        RegistryError: the node holds no assignment.
    """
    found = read_node(session, paths.topic(name))
    return None if found is None else decode_assignment(name, found[0])


def created_ms(session: ZkSession, name: str) -> int | None:
    """Return the creation time of a topic in milliseconds since 1970; None without the topic.

    The time tells a topic from a deleted one with the same name and offsets.
    """
    stat = session.exists(paths.topic(name))
    return None if stat is None else stat.ctime_ms


def assignments(session: ZkSession, names: Sequence[str] | None = None) -> dict[str, Assignment]:
    """Return the replica assignments of many topics, by default of all, with pipelined reads.

    A topic that does not exist, or whose node cannot be read, is left out.
    """
    wanted = list_topics(session) if names is None else names
    nodes = session.get_many([paths.topic(name) for name in wanted])
    found: dict[str, Assignment] = {}
    for name, node in zip(wanted, nodes, strict=True):
        if node is not None:
            try:
                found[name] = decode_assignment(name, node[0])
            except RegistryError as error:
                logger.warning("topic unreadable error=%s", error)
    return found


def create_topic(
    session: ZkSession,
    name: str,
    assignment: Mapping[int, Sequence[int]],
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic; the brokers in the assignment begin to serve it.

    Args:
        session: a started session.
        name: the topic.
        assignment: partition → broker ids.
        config: settings of the topic.

    Raises:
        InvalidTopic: the name is not a valid topic name.
        NodeExists: the topic exists.
    """
    check_topic_name(name)
    for _ in range(_ATTEMPTS):
        if session.exists(paths.topic(name)) is not None:
            raise NodeExists(f"topic {name} exists already")
        try:
            stat = session.exists(paths.topic_config(name))
            settings = encode_config(config or {})
            write: Operation = (
                Create(paths.topic_config(name), settings)
                if stat is None
                else SetData(paths.topic_config(name), settings, stat.version)
            )
            session.transaction([write, Create(paths.topic(name), encode_assignment(assignment))])
        except TransactionFailed as refused:
            if isinstance(refused.cause, NoNode):
                session.ensure_path(paths.TOPICS)
                session.ensure_path(paths.TOPIC_CONFIGS)
            continue
        logger.info("topic created topic=%s partitions=%d", name, len(assignment))
        return
    raise RegistryError(f"topic {name} is being created by too many clients at once")


def add_partitions(session: ZkSession, name: str, added: Mapping[int, Sequence[int]]) -> Assignment:
    """Add partitions to a topic and return the whole assignment.

    Raises:
        NoNode: there is no such topic.
        ProtocolError: a partition exists already (37).
        RegistryError: ZooKeeper does not answer, or too many clients change the topic at once.
    """
    for _ in range(_ATTEMPTS):
        data, stat = session.get(paths.topic(name))
        current = decode_assignment(name, data)
        both = current.keys() & added.keys()
        if both:
            raise ProtocolError(
                f"partition {min(both)} of topic {name} exists already",
                code=ErrorCode.INVALID_PARTITIONS,
            )
        whole = current | {number: tuple(replicas) for number, replicas in added.items()}
        with contextlib.suppress(BadVersion):
            session.set(paths.topic(name), encode_assignment(whole), stat.version)
            return whole
    raise RegistryError(f"topic {name} is being changed by too many clients at once")


# -- deletion


def mark_for_deletion(session: ZkSession, name: str) -> None:
    """Request the deletion of a topic; the controller carries it out.

    Raises:
        NoNode: there is no such topic.
    """
    if session.exists(paths.topic(name)) is None:
        raise NoNode(f"topic {name} does not exist")
    with contextlib.suppress(NodeExists):
        session.create(paths.delete_topic(name), parents=True)


def topics_to_delete(session: ZkSession, watch: Settable | None = None) -> list[str]:
    """Return the topics whose deletion was requested."""
    return children(session, paths.DELETE_TOPICS, watch)


def remove_topic(session: ZkSession, name: str, epoch_version: int) -> None:
    """Remove all nodes of a topic and the request; the controller's part of a deletion.

    It may be repeated after an interruption. The topic goes in one transaction with its settings
    and the request: removed later, they would be those of a new topic of the same name, which would
    lose its settings, or be deleted.

    Args:
        session: a started session.
        name: the topic.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer, or another client keeps writing below the topic.
    """
    for _ in range(_ATTEMPTS):
        partitions = paths.partitions(name)
        below = [f"{partitions}/{number}" for number in children(session, partitions)]
        refused: list[str] = []
        for group in (
            [f"{path}/state" for path in below],
            below,
            [partitions],
        ):
            refused = _delete_all(session, group, epoch_version)
            if refused:
                break
        if not refused:
            last = [paths.topic(name), paths.topic_config(name), paths.delete_topic(name)]
            refused = _delete_together(session, last, epoch_version)
        if not refused:
            logger.info("topic removed topic=%s", name)
            return
        # Another client has created nodes below these, at any depth and under any name.
        for path in refused:
            for deep in reversed(_descendants(session, path)):
                _delete_all(session, [deep], epoch_version)
    raise RegistryError(f"topic {name} is written to while it is removed")


def _delete_all(session: ZkSession, group: Sequence[str], epoch_version: int) -> list[str]:
    """Delete nodes and return those that have children; missing ones are fine."""
    operations: list[Operation] = [Delete(path) for path in group]
    answers = controller_transactions(session, operations, epoch_version)
    return [
        path
        for path, failed in zip(group, answers, strict=True)
        if failed is not None and not isinstance(failed.cause, NoNode)
    ]


def _delete_together(session: ZkSession, group: Sequence[str], epoch_version: int) -> list[str]:
    """Delete nodes at once, missing ones are fine; returns the one that was changed meanwhile."""
    stats = session.exists_many(group)
    operations = [
        Delete(path, stat.version)
        for path, stat in zip(group, stats, strict=True)
        if stat is not None
    ]
    (failed,) = controller_transactions(session, [operations], epoch_version)
    return [] if failed is None else [failed.path]


def _descendants(session: ZkSession, path: str) -> list[str]:
    """Return the nodes below a node, each after its parent."""
    found = [f"{path}/{child}" for child in children(session, path)]
    for each in found:
        found += [f"{each}/{child}" for child in children(session, each)]
    return found


def replace_assignment(
    session: ZkSession,
    name: str,
    replicas: Mapping[int, Sequence[int]],
    epoch_version: int,
) -> Assignment:
    """Give some partitions of a topic other replicas; the controller's part of a reassignment.

    Returns:
        the whole assignment after that.

    Raises:
        ControllerMoved: there is another controller.
        NoNode: there is no such topic.
        RegistryError: ZooKeeper does not answer.
    """
    for _ in range(_ATTEMPTS):
        data, stat = session.get(paths.topic(name))
        whole = decode_assignment(name, data) | {n: tuple(r) for n, r in replicas.items()}
        write = SetData(paths.topic(name), encode_assignment(whole), stat.version)
        if controller_transactions(session, [write], epoch_version) == [None]:
            return whole
    raise RegistryError(f"topic {name} is being changed by too many clients at once")


# -- settings


def encode_config(config: Mapping[str, str]) -> bytes:
    settings = {key: str(config[key]) for key in sorted(config)}
    return write_json({"version": 1, "config": settings})


def decode_config(name: str, data: bytes) -> dict[str, str]:
    """Read a topic's settings; an empty node has none.

    Raises:
        RegistryError: the node holds no settings.
    """
    return decode_settings(paths.topic_config(name), data)


def decode_settings(path: str, data: bytes) -> dict[str, str]:
    """Read the settings in a node; an empty node has none.

    Raises:
        RegistryError: the node holds no settings.
    """
    if not data:
        return {}
    try:
        settings = read_json(data).get("config") or {}
        return {str(key): str(value) for key, value in settings.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise RegistryError(f"{path} holds no settings: {data[:200]!r}") from error


def topic_config(session: ZkSession, name: str) -> dict[str, str]:
    """Return the settings of a topic that differ from the brokers' defaults."""
    found = read_node(session, paths.topic_config(name))
    return {} if found is None else decode_config(name, found[0])


def set_topic_config(session: ZkSession, name: str, config: Mapping[str, str]) -> None:
    """Replace the settings of a topic and notify the brokers.

    Raises:
        NoNode: there is no such topic.
    """
    if session.exists(paths.topic(name)) is None:
        raise NoNode(f"topic {name} does not exist")
    session.ensure_path(paths.topic_config(name))
    session.set(paths.topic_config(name), encode_config(config))
    notify_config_change(session, name)


def notify_config_change(session: ZkSession, name: str) -> None:
    """Write a notification that the settings of a topic changed.

    If a broker of Kafka 0.8.2 is registered, a second notification follows, the bare name in single
    quotes: such a broker drops the first and the last character of a note. It must come second,
    since 0.8.2 reads notes in no order but skips those before the last one read. Genuine tools of
    0.8.2 wrote double quotes, but newer brokers report an error for such JSON, and ignore a note
    that is no JSON.
    """
    note_change(session, f"topics/{name}")
    if any(each.version < ENDPOINTS_SINCE for each in list_brokers(session).values()):
        old = f"'{name}'".encode()
        session.create(paths.CONFIG_CHANGE_PREFIX, old, sequential=True, parents=True)


def changed_topic(data: bytes) -> str | None:
    """Return the topic that a change notification of any generation names.

    Returns:
        None if it does not name a topic, or cannot be read.
    """
    kind, _, name = (changed_entity(data) or "").partition("/")
    return name if kind == "topics" and name else None
