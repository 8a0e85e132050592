"""`zkbroker elect`: let preferred replicas lead again."""

import sys
from pathlib import Path

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_session
from zkbroker.cli.output import name_partitions, say
from zkbroker.errors import ConfigError, ErrorCode
from zkbroker.types import PartitionKey


@click.command(
    "elect",
    epilog="\b\nExamples:\n"
    "  zkbroker elect -z 127.0.0.1:2181\n"
    "  zkbroker elect -b 127.0.0.1:9092 visits-0 visits-1",
)
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION]...")
@cluster_options
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='The partitions in the genuine form: {"partitions":[{"topic":"t","partition":0}]}.',
)
@click.option("--genuine-text", is_flag=True, hidden=True)
def command(
    partitions: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    file: Path | None,
    genuine_text: bool,
) -> None:
    """Let the first replica of partitions lead them again.

    If no partition is named, all are meant. The controller does it for those whose first replica is
    in sync. With -z the request waits in ZooKeeper for the controller; with -b (brokers of 2.2 or
    later) the controller answers for each partition, and the exit status is 1 if one failed.
    """
    from zkbroker.admin.reassignment import decode_partitions, elect_preferred

    chosen = [_parse(text) for text in partitions]
    if file is not None:
        chosen += decode_partitions(file.read_text(encoding="utf-8", errors="replace"))
    if bootstrap is not None:
        _ask_controller(bootstrap, chosen, genuine_text)
        return
    with open_session(zookeeper, needs_brokers=True) as session:
        elected = elect_preferred(session, chosen or None)
    if genuine_text:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in elected)
        say(f"Successfully started preferred replica election for partitions {names}")
    else:
        say(f"the controller elects the leaders of {name_partitions(elected)}")


def _ask_controller(bootstrap: str, chosen: list[PartitionKey], genuine_text: bool) -> None:
    from zkbroker.admin.broker_queries import elect_preferred

    with open_cluster(bootstrap, None) as cluster:
        answers = elect_preferred(cluster, chosen or None)
    done = sorted(key for key, error in answers.items() if error is None)
    if genuine_text and done:
        names = ", ".join(f"{topic}-{number}" for topic, number in done)
        say(f"Successfully completed leader election (PREFERRED) for partitions {names}")
    elif done:
        say(f"preferred replicas lead {name_partitions(done)}")
    elif not answers:
        say("preferred replicas lead all partitions already")
    failed = {key: error for key, error in answers.items() if error is not None}
    for (topic, number), error in sorted(failed.items()):
        why = f"{error}"
        if error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
            why = f"its preferred replica is not in sync ({error})"
        say(f"{topic}-{number}: not elected: {why}", err=True)
    if failed:
        sys.exit(1)


def _parse(text: str) -> tuple[str, int]:
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise ConfigError(f"{text!r} is not a partition: give TOPIC-NUMBER, as in visits-0")
    return topic, int(number)
