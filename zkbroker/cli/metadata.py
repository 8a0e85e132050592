"""`zkbroker metadata`: brokers, topics, partitions and their leaders."""

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, print_table, say


@click.command(
    "metadata",
    epilog="\b\nExamples:\n"
    "  zkbroker metadata -b 127.0.0.1:9092\n"
    "  zkbroker metadata -z 127.0.0.1:2181 -t visits --json",
)
@cluster_options
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@json_option
def command(
    bootstrap: str | None, zookeeper: str | None, topics: tuple[str, ...], as_json: bool
) -> None:
    """List brokers, topics, partitions and their leaders."""
    with open_cluster(bootstrap, zookeeper) as cluster:
        brokers = sorted(cluster.brokers().values())
        partitions = [
            info for topic in topics or cluster.topics() for info in cluster.partitions(topic)
        ]
    if as_json:
        print_json(
            {
                "brokers": [broker._asdict() for broker in brokers],
                "partitions": [info._asdict() for info in partitions],
            }
        )
        return
    print_table(
        ["broker", "host", "port", "rack"],
        [[b.id, b.host, b.port, b.rack] for b in brokers],
        numbers=[0, 2],
    )
    say()
    print_table(
        ["topic", "partition", "leader"],
        [[info.topic, info.partition, info.leader] for info in partitions],
        numbers=[1, 2],
    )
