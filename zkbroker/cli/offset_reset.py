"""`zkbroker offsets reset`: set the offsets of a group without members."""

import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import NO_ZOOKEEPER, cluster_options, open_cluster, open_session
from zkbroker.cli.offset_places import chosen_partitions, keepers_of, parse_time
from zkbroker.cli.output import say
from zkbroker.config.durations import parse_duration_ms
from zkbroker.errors import ClientError, ConfigError
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from zkbroker.admin.reset_offsets import ResetTarget
    from zkbroker.client import Cluster


@click.command(
    "reset",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets reset counters earliest -t visits -z 127.0.0.1:2181\n"
    "  zkbroker offsets reset counters 2026-11-23T10:00 -t visits:0,1 -b 127.0.0.1:9092\n"
    "  zkbroker offsets reset counters shift:-100 --all-topics --dry-run\n"
    "  zkbroker offsets reset counters file:offsets.csv",
)
@click.argument("group")
@click.argument("target", metavar="TARGET")
@cluster_options
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    help="Topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="Every topic for which the group has offsets.")
@click.option(
    "--kept-by",
    type=click.Choice(["zookeeper", "coordinator"]),
    help="Where the group keeps its offsets; looked up if not given.",
)
@click.option("--dry-run", is_flag=True, help="Only print the new offsets.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print topic,partition,offset lines, which file: accepts."
)
@click.option("--genuine-text", is_flag=True, hidden=True)
def reset_command(
    group: str,
    target: str,
    bootstrap: str | None,
    zookeeper: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    kept_by: str | None,
    dry_run: bool,
    as_csv: bool,
    genuine_text: bool,
) -> None:
    r"""Set the offsets of a group without members.

    \b
    TARGET is one of
      earliest, latest       the ends of the logs
      2026-11-23T10:00, MS   the first messages at or after a time
      duration:2h            the first messages of the last two hours
      current                the committed offset; the log end if there is none
      offset:N, shift:N      an offset, or so many messages on (back below 0)
      file:FILE              the offsets of topic,partition,offset lines

    Offsets outside a log become its nearest end. A group is reset where it keeps its offsets: in
    ZooKeeper, with its coordinator, or both. A new group is created in ZooKeeper with -z, and with
    its coordinator if only -b is given.
    """
    from zkbroker.admin import coordinator_groups, zk_groups
    from zkbroker.admin.reset_offsets import Way, plan_reset

    aim = parse_target(target)
    if (aim.way is Way.GIVEN) + all_topics + bool(topics) != 1:
        raise click.UsageError("give -t TOPIC, or --all-topics, or file:FILE, which names them")
    if kept_by == "zookeeper" and zookeeper is None:
        raise ConfigError(NO_ZOOKEEPER)
    with ExitStack() as stack:
        cluster = stack.enter_context(open_cluster(bootstrap, zookeeper))
        session = None if zookeeper is None else stack.enter_context(open_session(zookeeper))
        keepers = (kept_by,) if kept_by else keepers_of(cluster, session, group)
        committed: dict[PartitionKey, int] = {}
        # Both are checked before either is changed.
        if "coordinator" in keepers:
            coordinator_groups.check_idle(cluster, group)
            committed.update(coordinator_groups.describe(cluster, group).offsets)
        if session is not None and "zookeeper" in keepers:
            zk_groups.check_idle(session, group)
            committed = {**zk_groups.committed(session, group), **committed}
        if all_topics and not committed:
            raise ClientError(f"group {group} has committed nothing: name topics with -t")
        keys = (
            sorted(aim.given)
            if aim.way is Way.GIVEN
            else _chosen(cluster, tuple({topic: None for topic, _ in sorted(committed)}))
            if all_topics
            else _chosen(cluster, topics)
        )
        plan = plan_reset(cluster, aim, keys, committed)
        if "coordinator" in keepers and not dry_run:
            coordinator_groups.set_offsets(cluster, group, plan.offsets)
        if session is not None and "zookeeper" in keepers and not dry_run:
            zk_groups.set_offsets(session, group, plan.offsets)
    for (topic, partition), wanted in sorted(plan.moved.items()):
        say(
            f"{topic}-{partition}: offset {wanted} lies outside the log, "
            f"{plan.offsets[topic, partition]} is taken",
            err=True,
        )
    if genuine_text and not as_csv:
        say()
        say(f"{'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}")
    for (topic, partition), offset in sorted(plan.offsets.items()):
        if as_csv:
            say(f"{topic},{partition},{offset}")
        elif genuine_text:
            say(f"{topic:<30} {partition:<10} {offset:<15}")
        else:
            if "zookeeper" in keepers:
                say(f"/consumers/{group}/offsets/{topic}/{partition}:{offset}")
            if "coordinator" in keepers:
                say(f"{group}:{topic}:{partition}:{offset}")
    if dry_run and not genuine_text:
        say("dry run: nothing was committed", err=True)


def parse_target(text: str) -> "ResetTarget":
    """Parse the target of a reset.

    Raises:
        ConfigError: it is none of the forms.
    """
    from zkbroker.admin.reset_offsets import ResetTarget, Way, read_offsets

    kind, colon, value = text.partition(":")
    if text == "current":
        return ResetTarget(Way.CURRENT)
    if colon and kind in ("offset", "shift"):
        number = value.removeprefix("-" if kind == "shift" else "").removeprefix("+")
        if not number.isascii() or not number.isdecimal() or int(number) >= 1 << 62:
            raise ConfigError(f"{text!r} is not allowed: give {kind}:N with a number")
        return ResetTarget(Way.OFFSET if kind == "offset" else Way.SHIFT, int(value))
    if colon and kind == "duration":
        return ResetTarget(Way.TIME, round(time.time() * 1000) - _duration_ms(value))
    if colon and kind == "file":
        with Path(value).open(encoding="utf-8", newline="") as lines:
            return ResetTarget(Way.GIVEN, given=read_offsets(lines))
    return ResetTarget(Way.TIME, parse_time(text))


_ISO_DURATION = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII
)


def _duration_ms(text: str) -> int:
    """Return a duration such as `2h`, or ISO 8601's `PT2H`, in ms."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return parse_duration_ms(text, bare=False)
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return 1000 * ((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds)


def _chosen(cluster: "Cluster", topics: tuple[str, ...]) -> list[PartitionKey]:
    chosen: list[PartitionKey] = []
    for text in topics:
        # A topic's name has no colon.
        topic, _, numbers = text.partition(":")
        chosen += [(topic, number) for number in chosen_partitions(cluster, topic, numbers)]
    return list(dict.fromkeys(chosen))
