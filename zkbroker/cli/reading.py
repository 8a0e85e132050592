"""The sources of `zkbroker consume`: given partitions, or a share of a group.

Invariant: if an end is asked for, end offsets are read once, so that reading ends even while others
    keep writing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zkbroker.cli.connection import CLIENT_ID, open_cluster, open_session
from zkbroker.cli.generation import CommandGeneration
from zkbroker.cli.output import warn
from zkbroker.cli.positions import Anchor, Position, Range
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.config.consumer import ConsumerConfig, FetchConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.shared_options import READ_COMMITTED, SMALLEST
from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME
from zkbroker.errors import ConfigError, RequestTimedOut
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from zkbroker.client import Cluster
    from zkbroker.consumer import GroupConsumer, MessageAndMetadata

Offsets = dict[PartitionKey, int]
Messages = Iterator["MessageAndMetadata"]

_POLL_S = 0.2


@contextmanager
def of_partitions(
    topic: str,
    partitions: tuple[int, ...],
    cluster: "Cluster",
    zookeeper: str | None,
    chosen: Range,
    exit_at_end: bool,
    properties: Mapping[str, str],
) -> Iterator[Messages]:
    """Read partitions of a topic without a group.

    Raises:
        ConfigError: a partition does not exist, or a setting is not allowed.
        ProtocolError: a broker refuses.
    """
    from zkbroker.consumer import AssignedConsumer

    config = FetchConfig.without_group({"auto.offset.reset": SMALLEST, **properties}, warn=warn)
    known = [info.partition for info in cluster.partitions(topic)]
    unknown = sorted(set(partitions) - set(known))
    if unknown:
        raise ConfigError(f"topic {topic} has no partition {unknown[0]}; it has 0 to {known[-1]}")
    keys = [(topic, partition) for partition in partitions or known]
    if chosen.start.anchor is Anchor.STORED:
        starts = _stored(cluster, keys, zookeeper, properties.get("group.id"))
    else:
        starts = resolve(cluster, keys, chosen.start, read_committed=config.read_committed)
    stops: Offsets = {}
    if chosen.stop is not None:
        times = dict.fromkeys(keys, chosen.stop.value)
        stops = resolve_or_end(cluster, times, read_committed=config.read_committed)
    elif exit_at_end:
        stops = ends_of(cluster, keys, read_committed=config.read_committed)
    with AssignedConsumer(
        cluster,
        starts,
        stop=stops,
        settings=config.fetching(),
        timeout_ms=config.consumer_timeout_ms,
    ) as consumer:
        yield iter(consumer)


def ends_of(cluster: "Cluster", keys: list[PartitionKey], *, read_committed: bool) -> Offsets:
    """Return where the partitions end now."""
    return resolve_or_end(cluster, dict.fromkeys(keys, LATEST_TIME), read_committed=read_committed)


def bounds_of(cluster: "Cluster", topic: str) -> tuple[Offsets, Offsets]:
    """Return where the partitions of a topic begin and end now."""
    keys = [(topic, info.partition) for info in cluster.partitions(topic)]
    starts = resolve_or_end(cluster, dict.fromkeys(keys, EARLIEST_TIME))
    return starts, ends_of(cluster, keys, read_committed=False)


def resolve(
    cluster: "Cluster", keys: list[PartitionKey], position: Position, *, read_committed: bool
) -> Offsets:
    """Return the offset of a position in each partition.

    An offset outside the log becomes its end, as with kcat, with a note on standard error.
    """
    if position.anchor is Anchor.TIME:
        times = dict.fromkeys(keys, position.value)
        return resolve_or_end(cluster, times, read_committed=read_committed)
    first = resolve_or_end(cluster, dict.fromkeys(keys, EARLIEST_TIME))
    if position.anchor is Anchor.BEGINNING:
        return first
    ends = ends_of(cluster, keys, read_committed=read_committed)
    if position.anchor is Anchor.END:
        return {key: max(first[key], ends[key] - position.value) for key in keys}
    starts = dict.fromkeys(keys, position.value)
    for key in keys:
        if not first[key] <= position.value <= ends[key]:
            starts[key] = ends[key]
            warn(
                f"{key[0]}-{key[1]} holds offsets {first[key]} to {ends[key]}, not "
                f"{position.value}: reading from its end"
            )
    return starts


def _stored(
    cluster: "Cluster", keys: list[PartitionKey], zookeeper: str | None, group: str | None
) -> Offsets:
    from zkbroker.registry.group_offsets import read_offset

    if group is None:
        raise ConfigError("-o stored needs the group whose offsets to use: -X group.id=GROUP")
    starts = resolve(cluster, keys, Position(Anchor.BEGINNING), read_committed=False)
    with open_session(zookeeper) as session:
        for key in keys:
            stored = read_offset(session, group, *key)
            if stored is not None:
                starts[key] = stored[0]
    return starts


@contextmanager
def of_zookeeper_group(
    topics: list[str],
    zookeeper: str,
    group: str,
    properties: Mapping[str, str],
    generation: CommandGeneration | None = None,
    *,
    blacklist: bool = False,
    delete_group: bool = False,
) -> Iterator[Messages]:
    """Read as a member of a group kept in ZooKeeper, of a cluster of any generation.

    Topics are names, or Java regular expressions; with `blacklist` all topics but these are read.

    Raises:
        ClientError: a group to delete has members.
        ConfigError: a setting is not allowed.
        RegistryError: ZooKeeper does not answer, or no broker is registered there.
    """
    from zkbroker.admin.cluster_tree import require_cluster
    from zkbroker.admin.zk_groups import delete
    from zkbroker.consumer import Blacklist, Consumer, Whitelist
    from zkbroker.zookeeper import ZkSession

    given = {"zookeeper.connect": zookeeper, "group.id": group, **properties}
    config = (
        ConsumerConfig.from_properties(given, warn=warn)
        if generation is None
        else generation.consumer_config(given, warn)
    )
    shared = config if isinstance(config, ConsumerConfig) else config.connector()
    require_cluster(shared.zookeeper_connect, shared.security.zookeeper)
    if delete_group:
        connect, security = shared.zookeeper_connect, shared.security.zookeeper
        with ZkSession(connect, make_chroot=False, security=security) as session:
            delete(session, shared.group_id)
    chosen = (Blacklist if blacklist else Whitelist)(",".join(topics))
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams_by_filter(chosen, 1)
        yield iter(stream)


@contextmanager
def of_coordinator_group(
    topics: list[str],
    bootstrap: str,
    group: str,
    start: Position | None,
    exit_at_end: bool,
    properties: Mapping[str, str],
) -> Iterator[Messages]:
    """Read as a member of a group kept by its coordinator.

    Args:
        topics: names; those that begin with `^` are regular expressions.
        bootstrap: brokers.
        group: its id.
        start: where to start in partitions assigned to this member; None for the group's own
            offsets.
        exit_at_end: stop when all assigned partitions are read to their ends at the time of
            assignment.
        properties: of the consumer.

    Raises:
        ConfigError: a setting is not allowed.
        ProtocolError: the group cannot be joined.
    """
    from zkbroker.consumer import GroupConsumer

    config = GroupConsumerConfig.from_properties(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": CLIENT_ID,
            **properties,
        },
        warn=warn,
    )
    with GroupConsumer(config) as consumer:
        committed = config.isolation_level == READ_COMMITTED
        if any(topic.startswith("^") for topic in topics):
            import re

            names = (
                topic[1:] if topic.startswith("^") else re.escape(topic) + "$" for topic in topics
            )
            consumer.subscribe("^(?:" + "|".join(f"(?:{name})" for name in names) + ")")
        else:
            consumer.subscribe(topics)
        yield _group_messages(consumer, bootstrap, start, exit_at_end, read_committed=committed)
        if config.enable_auto_commit:
            consumer.commit()


def _group_messages(
    consumer: "GroupConsumer",
    bootstrap: str,
    start: Position | None,
    exit_at_end: bool,
    *,
    read_committed: bool,
) -> Messages:
    """Read the partitions assigned to a member; the arguments are of `of_coordinator_group`."""
    begun: set[PartitionKey] = set()
    ends: Offsets = {}
    while True:
        held = consumer.assignment()
        fresh = sorted(held - begun)
        begun = held
        if fresh and start is not None:
            with open_cluster(bootstrap, None) as cluster:
                starts = resolve(cluster, fresh, start, read_committed=read_committed)
            for key, offset in starts.items():
                consumer.seek(*key, offset)
        if fresh and exit_at_end:
            ends.update(consumer.end_offsets(fresh))
        # One at a time, so that exactly the printed messages are committed at the end.
        yield from consumer.poll(_POLL_S, 1)
        if exit_at_end and begun and _at_end(consumer, {key: ends[key] for key in begun}):
            return


def _at_end(consumer: "GroupConsumer", ends: Offsets) -> bool:
    try:
        return all(consumer.position(*key, timeout_s=0) >= end for key, end in ends.items())
    except RequestTimedOut:
        # The next polls bring the position.
        return False
