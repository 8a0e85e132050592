"""`zkbroker metadata`: brokers, partitions, their leaders and replicas."""

from typing import TYPE_CHECKING, Any

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from zkbroker.client import Cluster

_NO_LEADER = -1


@click.command(
    "metadata",
    epilog="\b\nExamples:\n"
    "  zkbroker metadata -b 127.0.0.1:9092\n"
    "  zkbroker metadata -z 127.0.0.1:2181 -t visits --json",
)
@cluster_options
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@click.option("--internal", is_flag=True, help="List the brokers' own topics too.")
@json_option
def command(
    bootstrap: str | None,
    zookeeper: str | None,
    topics: tuple[str, ...],
    internal: bool,
    as_json: bool,
) -> None:
    """List brokers, partitions, their leaders and replicas.

    JSON includes the brokers' own topics, marked as internal.
    """
    with open_cluster(bootstrap, zookeeper) as cluster:
        brokers = sorted(cluster.brokers().values())
        partitions = _partitions(cluster, topics)
    if as_json:
        print_json(
            {
                "brokers": [broker._asdict() for broker in brokers],
                "partitions": partitions,
            }
        )
        return
    print_table(
        ["broker", "host", "port", "rack"],
        [[b.id, b.host, b.port, b.rack] for b in brokers],
        numbers=[0, 2],
    )
    say()
    shown = [each for each in partitions if internal or topics or not each["internal"]]
    print_table(
        ["topic", "partition", "leader", "replicas", "in sync"],
        [
            [
                each["topic"],
                each["partition"],
                each["leader"],
                ",".join(map(str, each["replicas"])),
                ",".join(map(str, each["isr"])),
            ]
            for each in shown
        ],
        numbers=[1, 2],
    )
    if len(shown) < len(partitions):
        say(
            f"{len(partitions) - len(shown)} partitions of the brokers' own topics are not shown: "
            "--internal shows them",
            err=True,
        )


def _partitions(cluster: "Cluster", topics: tuple[str, ...]) -> list[dict[str, Any]]:
    from zkbroker.protocol.messages import MetadataRequest

    for topic in topics:
        # A missing topic is an error here; brokers before 0.11 would create it.
        cluster.partitions(topic)
    names = list(topics or cluster.topics())
    if not names:
        return []
    answer = cluster.any_connection().request(
        MetadataRequest(names, allow_auto_topic_creation=False)
    )
    return [
        {
            "topic": topic.topic,
            "partition": each.partition,
            "leader": None if each.leader == _NO_LEADER else each.leader,
            "leader_epoch": each.leader_epoch,
            "replicas": list(each.replicas),
            "isr": list(each.isr),
            "internal": topic.is_internal,
        }
        for topic in sorted(answer.topics, key=lambda topic: str(topic.topic))
        for each in sorted(topic.partitions, key=lambda each: int(each.partition))
    ]
