"""`zkbroker health`: the problems of a cluster, for probes and for people."""

import sys
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_topics
from zkbroker.cli.output import json_option, name_partitions, print_json, say
from zkbroker.errors import ConfigError, ZkbrokerError

if TYPE_CHECKING:
    from zkbroker.admin.health import Problem
    from zkbroker.admin.topic_ways import TopicWay


@click.command(
    "health",
    epilog="\b\nExamples:\n"
    "  zkbroker health -b 127.0.0.1:9092\n"
    "  zkbroker health -z 127.0.0.1:2181 --json",
)
@cluster_options
@json_option
def command(bootstrap: str | None, zookeeper: str | None, as_json: bool) -> None:
    """Show the problems of a cluster; exit status 0 when there are none, 1 otherwise.

    Problems are an unreachable cluster, no controller, missing brokers, offline data directories,
    and partitions that no broker serves, or with replicas out of sync, or with fewer in sync than
    min.insync.replicas.
    """
    from zkbroker.admin.health import Problem

    seen = ""
    unknown: list[str] = []
    silent: list[str] = []
    try:
        with open_topics(bootstrap, zookeeper) as way:
            problems, seen, unknown = _look(way)
            if way.brokers():
                offline, silent = _directories(bootstrap, zookeeper)
                problems += offline
    except ConfigError:
        raise  # names the missing option, not a problem of a cluster
    except ZkbrokerError as error:
        problems = [Problem("unreachable", f"the cluster cannot be asked: {error}")]
    if as_json:
        print_json(
            {
                "healthy": not problems,
                "problems": [
                    {
                        "problem": each.problem,
                        "text": each.text,
                        "partitions": [
                            {"topic": topic, "partition": number}
                            for topic, number in each.partitions
                        ],
                    }
                    for each in problems
                ],
                "min_isr_unknown": unknown,
                "directories_unknown": silent,
            }
        )
    else:
        for each in problems:
            names = f": {name_partitions(each.partitions)}" if each.partitions else ""
            say(f"{each.text}{names}")
        if not problems:
            say(f"healthy: {seen}")
        if unknown:
            say(
                f"no broker describes min.insync.replicas of {len(unknown)} topics: not checked",
                err=True,
            )
        for text in silent:
            say(f"data directories are not checked: {text}", err=True)
    if problems:
        sys.exit(1)


def _look(way: "TopicWay") -> "tuple[list[Problem], str, list[str]]":
    """Return the problems, a summary, and the topics whose min ISR is not known."""
    from zkbroker.admin.health import find_problems
    from zkbroker.admin.topic_ways import min_isr_of

    brokers = way.brokers()
    controller = way.controller()
    described = [each for each in way.describe(()) if not each.marked_for_deletion]
    least, unknown = min_isr_of(way, described)
    count = sum(len(each.partitions) for each in described)
    seen = (
        f"brokers {', '.join(map(str, brokers))}, controller {controller}, {count} partitions of "
        f"{len(described)} topics"
    )
    problems = find_problems(described, brokers, controller, least)
    return problems, seen, sorted(unknown)


def _directories(bootstrap: str | None, zookeeper: str | None) -> "tuple[list[Problem], list[str]]":
    """Return the offline data directories, and why some brokers could not be asked."""
    from zkbroker.admin.broker_queries import log_dirs
    from zkbroker.admin.health import offline_directories

    try:
        with open_cluster(bootstrap, zookeeper) as cluster:
            answers = log_dirs(cluster)
    except ZkbrokerError as error:
        return [], [str(error)]
    return offline_directories(answers.found), answers.reasons()
