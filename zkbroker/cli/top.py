"""`zkbroker top`: brokers, topics, rates, groups and lag, live in the terminal."""

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.foreign_text import harmless
from zkbroker.cli.output import table_console
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession


_FRAMED = range(80, 1000)
"""Widths of terminals, in characters, at which tables have frames."""

Places = dict[PartitionKey, tuple[int | None, str | None]]


@dataclass(slots=True)
class ClusterSnapshot:
    """The state of a cluster at one moment.

    Args:
        at: seconds of a monotonic clock.
        brokers: id → address.
        leaders: partition → broker id, None while no broker serves it.
        ends: partition → log end offset.
        starts: partition → first offset held.
        groups: group and its storage → partition → committed offset, if any, and owner.
        troubles: errors of requests that failed.
    """

    at: float
    brokers: dict[int, str] = field(default_factory=dict)
    leaders: dict[PartitionKey, int | None] = field(default_factory=dict)
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    starts: dict[PartitionKey, int] = field(default_factory=dict)
    groups: dict[tuple[str, str], Places] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)


@click.command(
    "top",
    epilog="\b\nExamples:\n"
    "  zkbroker top -z 127.0.0.1:2181\n"
    "  zkbroker top -b 127.0.0.1:9092 --once",
)
@cluster_options
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.option("--once", is_flag=True, help="Print once and stop.")
def command(bootstrap: str | None, zookeeper: str | None, interval: float, once: bool) -> None:
    """Show brokers, topics, rates, groups and lag, until Ctrl-C.

    With -b, groups that keep their offsets in ZooKeeper are not shown: brokers do not know them.
    """
    from rich.live import Live

    from zkbroker.cli.connection import open_session

    console = table_console()
    with ExitStack() as stack:
        session = None
        if bootstrap is None and zookeeper is not None:
            session = stack.enter_context(open_session(zookeeper))
        cluster = stack.enter_context(open_cluster(bootstrap, zookeeper))
        before = take(session, cluster)
        time.sleep(interval)
        now = take(session, cluster)
        if once:
            console.print(picture(before, now, width=console.width))
            return
        with Live(
            picture(before, now, width=console.width),
            console=console,
            screen=True,
            auto_refresh=False,
        ) as live:
            while True:
                time.sleep(interval)
                try:
                    before, now = now, take(session, cluster)
                except ZkbrokerError as error:
                    # The last picture stays, with the error.
                    now.troubles = [f"not up to date: {error}"]
                live.update(picture(before, now, width=console.width), refresh=True)


def take(session: "ZkSession | None", cluster: "Cluster") -> ClusterSnapshot:
    """Read the state of a cluster; without a session, groups in ZooKeeper are left out."""
    from zkbroker.admin import coordinator_groups
    from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME
    from zkbroker.registry.groups import list_groups

    snapshot = ClusterSnapshot(time.monotonic())
    cluster.refresh()
    snapshot.brokers = {b.id: f"{b.host}:{b.port}" for b in cluster.brokers().values()}
    for topic in cluster.topics():
        try:
            partitions = cluster.partitions(topic)
        except ProtocolError as error:
            _leave_out(snapshot, topic, error)
            continue
        for info in partitions:
            snapshot.leaders[topic, info.partition] = info.leader
    snapshot.ends = _offsets(cluster, snapshot, LATEST_TIME)
    snapshot.starts = _offsets(cluster, snapshot, EARLIEST_TIME)
    keys = list(snapshot.leaders)
    if session is None:
        snapshot.troubles.append(
            "groups that keep their offsets in ZooKeeper are not shown: give -z instead of -b"
        )
    else:
        for group in list_groups(session):
            snapshot.groups[group, "zookeeper"] = _of_zookeeper(session, group, keys)
    try:
        for group in coordinator_groups.list_groups(cluster):
            try:
                found = coordinator_groups.describe(cluster, group)
            except ProtocolError as error:
                snapshot.troubles.append(f"group {group} is not shown: {error}")
                continue
            places = _places(keys, found.offsets, found.owners, ())
            snapshot.groups[group, "coordinator"] = places
    except ZkbrokerError as error:
        snapshot.troubles.append(f"groups of coordinators are missing: {error}")
    return snapshot


def _offsets(
    cluster: "Cluster", snapshot: ClusterSnapshot, time_ms: int
) -> dict[PartitionKey, int]:
    """Return an offset of every partition with a leader; unauthorized topics are dropped."""
    from zkbroker.client.resolve_offsets import resolve_or_end

    led = [key for key, leader in snapshot.leaders.items() if leader is not None]
    try:
        return resolve_or_end(cluster, dict.fromkeys(led, time_ms))
    except ProtocolError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
    found: dict[PartitionKey, int] = {}
    for topic in sorted({topic for topic, _ in led}):
        keys = [key for key in led if key[0] == topic]
        try:
            found |= resolve_or_end(cluster, dict.fromkeys(keys, time_ms))
        except ProtocolError as error:
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            _leave_out(snapshot, topic, error)
    return found


def _leave_out(snapshot: ClusterSnapshot, topic: str, error: Exception) -> None:
    snapshot.leaders = {key: each for key, each in snapshot.leaders.items() if key[0] != topic}
    snapshot.troubles.append(f"topic {topic} is not shown: {error}")


def _of_zookeeper(session: "ZkSession", group: str, keys: list[PartitionKey]) -> Places:
    from zkbroker.admin.zk_groups import owners, taken_topics
    from zkbroker.consumer.streams.filters import make_filter
    from zkbroker.registry.group_offsets import read_offsets
    from zkbroker.registry.groups import subscriptions

    stored = read_offsets(session, group, keys)
    taken = taken_topics(session, subscriptions(session, group), make_filter)
    offsets = {key: offset for key, (offset, _) in stored.items()}
    return _places(keys, offsets, owners(session, group), taken)


def _places(
    keys: list[PartitionKey],
    offsets: Mapping[PartitionKey, int],
    owners: Mapping[PartitionKey, str],
    topics: Collection[str],
) -> Places:
    """Return a group's position in all partitions of its topics, also in those without a commit."""
    names = {*topics, *(topic for topic, _ in (*offsets, *owners))}
    return {key: (offsets.get(key), owners.get(key)) for key in keys if key[0] in names}


def picture(
    before: ClusterSnapshot, now: ClusterSnapshot, *, width: int = _FRAMED[0]
) -> "RenderableType":
    """Draw the changes between two snapshots; a narrow terminal and a pipe get no frames."""
    from rich.console import Group
    from rich.table import Table

    from zkbroker.admin.group_lag import GroupPosition, sum_lag

    seconds = max(now.at - before.at, 0.001)
    rates = {key: (end - before.ends.get(key, end)) / seconds for key, end in now.ends.items()}

    brokers = Table(
        "broker", "address", "partitions", "in/s", title="Brokers", title_justify="left"
    )
    for broker_id, address in sorted(now.brokers.items()):
        led = [key for key, leader in now.leaders.items() if leader == broker_id]
        brokers.add_row(
            str(broker_id),
            harmless(address),
            str(len(led)),
            f"{sum(rates.get(key, 0) for key in led):,.0f}",
        )
    topics = Table("topic", "partitions", "messages", "in/s", title="Topics", title_justify="left")
    for topic in sorted({topic for topic, _ in now.leaders}):
        keys = [key for key in now.leaders if key[0] == topic]
        held = sum(now.ends.get(key, 0) - now.starts.get(key, 0) for key in keys)
        rate = sum(rates.get(key, 0) for key in keys)
        topics.add_row(harmless(topic), str(len(keys)), f"{held:,}", f"{rate:,.0f}")
    groups = Table(
        "group", "kept by", "topic", "out/s", "owners", "lag", "not in the lag",
        title="Groups", title_justify="left",
    )  # fmt: skip
    for (group, kept_by), positions in sorted(now.groups.items()):
        earlier = before.groups.get((group, kept_by), {})
        for topic in sorted({topic for topic, _ in positions}):
            of_topic = {key: place for key, place in positions.items() if key[0] == topic}
            total = sum_lag(
                GroupPosition(at, now.starts.get(key), now.ends.get(key))
                for key, (at, _) in of_topic.items()
            )
            moved = sum(_moved(earlier.get(key), at) for key, (at, _) in of_topic.items())
            names = {owner for _, owner in of_topic.values() if owner is not None}
            groups.add_row(
                harmless(group),
                kept_by,
                harmless(topic),
                f"{moved / seconds:,.0f}",
                str(len(names)),
                f"{total.lag:,}",
                total.not_counted,
            )
    for table, numbers in ((brokers, (2, 3)), (topics, (1, 2, 3)), (groups, (3, 4, 5))):
        for number in numbers:
            table.columns[number].justify = "right"
        for column in table.columns:
            # A narrow terminal breaks names; it does not cut them off.
            column.overflow = "fold"
        if width not in _FRAMED:
            table.box, table.pad_edge = None, False
    return Group(brokers, topics, groups, *map(harmless, now.troubles))


def _moved(before: tuple[int | None, str | None] | None, now: int | None) -> int:
    """Return how far a group's commit advanced; 0 if one of the two commits is missing."""
    earlier = None if before is None else before[0]
    return 0 if earlier is None or now is None else now - earlier
