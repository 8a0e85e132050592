"""`zkbroker top`: brokers, topics, rates, groups and lag, live in the terminal."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import open_cluster, zookeeper_option
from zkbroker.cli.foreign_text import harmless
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession


@dataclass(slots=True)
class Snapshot:
    """What a cluster looked like at one moment.

    Args:
        at: seconds of a monotonic clock.
        brokers: id → address.
        leaders: partition → broker id, None while no broker serves it.
        ends: partition → log end offset.
        starts: partition → first offset held.
        groups: group → partition → committed offset and owner.
    """

    at: float
    brokers: dict[int, str] = field(default_factory=dict)
    leaders: dict[PartitionKey, int | None] = field(default_factory=dict)
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    starts: dict[PartitionKey, int] = field(default_factory=dict)
    groups: dict[str, dict[PartitionKey, tuple[int, str | None]]] = field(default_factory=dict)


@click.command(
    "top",
    epilog="\b\nExamples:\n"
    "  zkbroker top -z 127.0.0.1:2181\n"
    "  zkbroker top -z 127.0.0.1:2181 --once",
)
@zookeeper_option
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=2.0,
    show_default=True,
    help="Seconds between pictures.",
)
@click.option("--once", is_flag=True, help="Print one picture and stop.")
def command(zookeeper: str | None, interval: float, once: bool) -> None:
    """Show brokers, topics, rates, groups and lag, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    from zkbroker.cli.connection import open_session

    console = Console(markup=False)
    with open_session(zookeeper) as session, open_cluster(None, zookeeper) as cluster:
        before = take(session, cluster)
        time.sleep(interval)
        now = take(session, cluster)
        if once:
            console.print(picture(before, now))
            return
        with Live(picture(before, now), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                before, now = now, take(session, cluster)
                live.update(picture(before, now), refresh=True)


def take(session: "ZkSession", cluster: "Cluster") -> Snapshot:
    """Look at a cluster: topics and brokers by the brokers, ZooKeeper groups in ZooKeeper."""
    from zkbroker.client.resolve_offsets import resolve_offsets
    from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME
    from zkbroker.registry.groups import list_groups

    snapshot = Snapshot(time.monotonic())
    cluster.refresh()
    snapshot.brokers = {b.id: f"{b.host}:{b.port}" for b in cluster.brokers().values()}
    for topic in cluster.topics():
        for info in cluster.partitions(topic):
            snapshot.leaders[topic, info.partition] = info.leader
    led = [key for key, leader in snapshot.leaders.items() if leader is not None]
    ends = resolve_offsets(cluster, dict.fromkeys(led, LATEST_TIME))
    starts = resolve_offsets(cluster, dict.fromkeys(led, EARLIEST_TIME))
    snapshot.ends = {key: end or 0 for key, end in ends.items()}
    snapshot.starts = {key: start or 0 for key, start in starts.items()}
    for group in list_groups(session):
        snapshot.groups[group] = _group(session, group, list(snapshot.leaders))
    return snapshot


def _group(
    session: "ZkSession", group: str, keys: list[PartitionKey]
) -> dict[PartitionKey, tuple[int, str | None]]:
    from zkbroker.registry.groups import owners, read_offsets

    stored = read_offsets(session, group, keys)
    owned = {topic: owners(session, group, topic) for topic in {topic for topic, _ in stored}}
    return {
        (topic, partition): (offset, owned[topic].get(partition))
        for (topic, partition), (offset, _) in stored.items()
    }


def picture(before: Snapshot, now: Snapshot) -> "RenderableType":
    """Draw what happened between two moments."""
    from rich.console import Group
    from rich.table import Table

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
    groups = Table("group", "topic", "out/s", "lag", "owners", title="Groups", title_justify="left")
    for group, positions in sorted(now.groups.items()):
        earlier = before.groups.get(group, {})
        for topic in sorted({topic for topic, _ in positions}):
            of_topic = {key: place for key, place in positions.items() if key[0] == topic}
            lag = sum(max(0, now.ends.get(key, 0) - at) for key, (at, _) in of_topic.items())
            moved = sum(at - earlier.get(key, (at, None))[0] for key, (at, _) in of_topic.items())
            names = {owner for _, owner in of_topic.values() if owner is not None}
            rate = moved / seconds
            groups.add_row(
                harmless(group), harmless(topic), f"{rate:,.0f}", f"{lag:,}", str(len(names))
            )
    for table, numbers in ((brokers, (2, 3)), (topics, (1, 2, 3)), (groups, (2, 3, 4))):
        for number in numbers:
            table.columns[number].justify = "right"
    return Group(brokers, topics, groups)
