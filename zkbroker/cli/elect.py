"""`zkbroker elect`: let preferred replicas lead again."""

from pathlib import Path

import click

from zkbroker.cli.connection import open_session, zookeeper_option
from zkbroker.cli.output import name_partitions, say
from zkbroker.errors import ConfigError


@click.command(
    "elect",
    epilog="\b\nExamples:\n"
    "  zkbroker elect -z 127.0.0.1:2181\n"
    "  zkbroker elect -z 127.0.0.1:2181 visits-0 visits-1",
)
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION]...")
@zookeeper_option
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='The partitions in the genuine form: {"partitions":[{"topic":"t","partition":0}]}.',
)
@click.option("--genuine-text", is_flag=True, hidden=True)
def command(
    partitions: tuple[str, ...], zookeeper: str | None, file: Path | None, genuine_text: bool
) -> None:
    """Let the first replica of partitions lead them again.

    All partitions when none is named. The controller does it for those whose first replica is in
    sync.
    """
    from zkbroker.admin.reassignment import decode_partitions, elect_preferred

    chosen = [_parse(text) for text in partitions]
    if file is not None:
        chosen += decode_partitions(file.read_text(encoding="utf-8", errors="replace"))
    with open_session(zookeeper, needs_brokers=True) as session:
        elected = elect_preferred(session, chosen or None)
    if genuine_text:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in elected)
        say(f"Successfully started preferred replica election for partitions {names}")
    else:
        say(f"the controller elects the leaders of {name_partitions(elected)}")


def _parse(text: str) -> tuple[str, int]:
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise ConfigError(f"{text!r} is no partition: give TOPIC-NUMBER, as in visits-0")
    return topic, int(number)
