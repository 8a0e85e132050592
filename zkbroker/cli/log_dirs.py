"""`zkbroker log-dirs`: the data directories of brokers, and their sizes."""

from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from zkbroker.admin.broker_queries import LogDirectory


@click.command(
    "log-dirs",
    epilog="\b\nExamples:\n"
    "  zkbroker log-dirs -b 127.0.0.1:9092\n"
    "  zkbroker log-dirs -b 127.0.0.1:9092 -t visits --partitions --json",
)
@cluster_options
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@click.option("--broker", "brokers", type=int, multiple=True, help="Only this broker; repeatable.")
@click.option("--partitions", is_flag=True, help="List every replica, not only the sums.")
@click.option("--genuine-text", is_flag=True, hidden=True)
@json_option
def command(
    bootstrap: str | None,
    zookeeper: str | None,
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    partitions: bool,
    genuine_text: bool,
    as_json: bool,
) -> None:
    """Show the data directories of brokers, and their sizes.

    A directory that failed is shown with its error.
    """
    from zkbroker.admin.broker_queries import log_dirs

    if genuine_text:
        say("Querying brokers for log directories information")
    with open_cluster(bootstrap, zookeeper) as cluster:
        answers = log_dirs(cluster, brokers, topics)
    found = answers.found
    if genuine_text or as_json:
        if genuine_text:
            names = ",".join(map(str, found))
            say(f"Received log directory information from brokers {names}")
        shown = {"version": 1, "brokers": [_as_json(*each) for each in found.items()]}
        if genuine_text:
            print_json(shown, compact=True)
            say()
        else:
            print_json(shown)
    elif partitions:
        print_table(
            ["broker", "directory", "partition", "bytes", "lag", "note"],
            [
                [broker, each.path, f"{one.topic}-{one.partition}", one.size, one.lag,
                 "is moving here" if one.is_future else None]
                for broker, dirs in found.items()
                for each in dirs
                for one in sorted(each.replicas, key=lambda one: (one.topic, one.partition))
            ],
            numbers=[0, 3, 4],
        )  # fmt: skip
    else:
        print_table(
            ["broker", "directory", "replicas", "bytes", "error"],
            [
                [
                    broker,
                    each.path,
                    len(each.replicas),
                    f"{sum(one.size for one in each.replicas):,}",
                    each.error,
                ]
                for broker, dirs in found.items()
                for each in dirs
            ],
            numbers=[0, 2, 3],
        )
    answers.require_all()


def _as_json(broker: int, dirs: "list[LogDirectory]") -> dict[str, object]:
    return {
        "broker": broker,
        "logDirs": [
            {
                "logDir": each.path,
                "error": each.error,
                "partitions": [
                    {
                        "partition": f"{one.topic}-{one.partition}",
                        "size": one.size,
                        "offsetLag": one.lag,
                        "isFuture": one.is_future,
                    }
                    for one in each.replicas
                ],
            }
            for each in dirs
        ],
    }
