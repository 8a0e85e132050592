"""`zkbroker offsets`: log offsets, and the offsets that groups committed."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import (
    NO_ZOOKEEPER,
    cluster_options,
    open_cluster,
    open_session,
    zookeeper_option,
)
from zkbroker.cli.offset_places import chosen_partitions, keepers_of, parse_time
from zkbroker.cli.offset_reset import reset_command
from zkbroker.cli.output import json_option, print_json, say
from zkbroker.cli.security import current_security
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.client import Cluster


@click.group(
    "offsets",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits\n"
    "  zkbroker offsets export -z 127.0.0.1:2181 > offsets.txt\n"
    "  zkbroker offsets reset counters earliest -z 127.0.0.1:2181 -t visits",
)
def command() -> None:
    """Look up log offsets; export and import those of ZooKeeper groups, reset and convert them."""


@command.command(
    "get",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits --time earliest\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits --time 1431857100000 --offsets 5",
)
@cluster_options
@click.option("-t", "--topic", required=True, help="Topic to look at.")
@click.option("--partitions", help="Numbers separated by commas; all without it.")
@click.option(
    "--time",
    "when",
    default="latest",
    show_default=True,
    help="latest, earliest, ms since 1970, or a date or time as 2026-11-23T10:00.",
)
@click.option(
    "--offsets",
    "count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many; above one, the starts of segments last written before the time.",
)
@json_option
def get_command(
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str,
    partitions: str | None,
    when: str,
    count: int,
    as_json: bool,
) -> None:
    """Print log offsets by time.

    The lines are those of GetOffsetShell: `topic:partition:offset,offset`.
    """
    from zkbroker.client.leader_retries import retry_requests

    time_ms = parse_time(when)
    found: list[tuple[int, list[int]]] = []
    with open_cluster(bootstrap, zookeeper) as cluster:
        for partition in chosen_partitions(cluster, topic, partitions):
            offsets = retry_requests(
                cluster, [topic], partial(_offsets, cluster, topic, partition, time_ms, count)
            )
            if offsets is None:
                say(f"partition {partition} does not have a leader. Skip it", err=True)
            else:
                found.append((partition, offsets))
    if as_json:
        print_json([{"topic": topic, "partition": p, "offsets": offsets} for p, offsets in found])
        return
    for partition, offsets in found:
        say(f"{topic}:{partition}:{','.join(map(str, offsets))}")


def _offsets(
    cluster: "Cluster", topic: str, partition: int, time_ms: int, count: int
) -> list[int] | None:
    """Ask the leader of a partition for its offsets; None if there is no leader."""
    from zkbroker.client import BrokerUnavailable
    from zkbroker.consumer import SimpleConsumer

    leader = cluster.leader(topic, partition)
    if leader is None:
        return None
    address = cluster.brokers().get(leader)
    if address is None:
        raise BrokerUnavailable(f"broker {leader} is not registered")
    with SimpleConsumer(address.host, address.port, security=current_security()) as consumer:
        return consumer.get_offsets_before(topic, partition, time_ms, count)


@command.command("export", epilog="\b\nExample:\n  zkbroker offsets export counters -o offsets.txt")
@click.argument("groups", nargs=-1)
@zookeeper_option
@click.option(
    "-o",
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file; to standard output without it.",
)
def export_command(
    groups: tuple[str, ...], zookeeper: str | None, output_file: Path | None
) -> None:
    """Write the offsets of ZooKeeper groups.

    The lines are those of ExportZkOffsets; all groups when none is named.
    """
    from zkbroker.admin.zk_groups import export_offsets

    with open_session(zookeeper) as session:
        lines = list(export_offsets(session, groups))
    if output_file is None:
        for line in lines:
            say(line)
    else:
        output_file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        say(f"exported {len(lines)} offsets to {output_file}")


@command.command("import", epilog="\b\nExample:\n  zkbroker offsets import offsets.txt")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@zookeeper_option
def import_command(file: Path, zookeeper: str | None) -> None:
    """Commit exported offsets.

    Takes the lines of ExportZkOffsets, and commits all of them or none.
    """
    from zkbroker.admin.zk_groups import import_offsets

    with open_session(zookeeper) as session:
        count = import_offsets(session, file.read_text(encoding="utf-8").splitlines())
    say(f"imported {count} offsets")


@command.command(
    "convert",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets convert counters newer -z 127.0.0.1:2181 \\\n"
    "      --legacy07-zookeeper 127.0.0.1:2181/kafka07 --log-dir 0=/var/kafka-logs --dry-run\n"
    "  zkbroker offsets convert counters 0.7 -b 127.0.0.1:9092 \\\n"
    "      --legacy07-zookeeper 127.0.0.1:2181/kafka07 --log-dir 0=/var/kafka-logs",
)
@click.argument("group")
@click.argument("to", type=click.Choice(["newer", "0.7"]))
@cluster_options
@click.option(
    "--legacy07-zookeeper",
    required=True,
    metavar="HOST:PORT[/CHROOT]",
    help="The registry of 0.7.",
)
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    required=True,
    metavar="N=DIR",
    help="legacy07.log.dir of 0.7 broker N, for each broker with a view; repeatable.",
)
@click.option(
    "--kept-by",
    type=click.Choice(["zookeeper", "coordinator"]),
    help="Where the newer group keeps its offsets; looked up if not given.",
)
@click.option("--dry-run", is_flag=True, help="Only print the new offsets.")
def convert_command(
    group: str,
    to: str,
    bootstrap: str | None,
    zookeeper: str | None,
    legacy07_zookeeper: str,
    log_dirs: tuple[str, ...],
    kept_by: str | None,
    dry_run: bool,
) -> None:
    """Move a group from one generation to the other.

    Byte positions of 0.7 become offsets, or offsets byte positions, by the maps of the views. The
    group keeps its name, and its old commits stay. It must have no members on either side. If it
    stopped inside a compressed message, it reads the first messages of that again.
    """
    from zkbroker.admin import convert_offsets, coordinator_groups, zk_groups

    directories = _directories(log_dirs)
    with ExitStack() as stack:
        old = stack.enter_context(open_session(legacy07_zookeeper))
        cluster = stack.enter_context(open_cluster(bootstrap, zookeeper))
        session = None if zookeeper is None else stack.enter_context(open_session(zookeeper))
        if kept_by == "zookeeper" and session is None:
            raise ConfigError(NO_ZOOKEEPER)
        keepers = (kept_by,) if kept_by else keepers_of(cluster, session, group)
        if "coordinator" in keepers:
            coordinator_groups.check_idle(cluster, group)
        if session is not None and "zookeeper" in keepers:
            zk_groups.check_idle(session, group)
        if to == "newer":
            found = convert_offsets.to_newer(old, group, directories)
            offsets = {(each.topic, each.partition): each.offset for each in found}
            if "coordinator" in keepers and not dry_run:
                coordinator_groups.set_offsets(cluster, group, offsets)
            if session is not None and "zookeeper" in keepers and not dry_run:
                zk_groups.set_offsets(session, group, offsets)
        else:
            if len(keepers) > 1:
                raise ConfigError(
                    f"group {group} has offsets in ZooKeeper and with its coordinator: choose "
                    "one with --kept-by"
                )
            committed = (
                coordinator_groups.describe(cluster, group).offsets
                if session is None or keepers == ("coordinator",)
                else zk_groups.committed(session, group)
            )
            found = convert_offsets.to_07(committed, directories)
            if not dry_run:
                convert_offsets.write_07(old, group, found)
    for each in found:
        say(
            f"{each.topic} partition {each.partition} offset {each.offset} = {each.name} position "
            f"{each.position}"
        )
    if dry_run:
        say("dry run: nothing was committed", err=True)


def _directories(texts: tuple[str, ...]) -> dict[int, Path]:
    """Return the directories by broker.

    Raises:
        ConfigError: one is not of the form N=DIR.
    """
    found: dict[int, Path] = {}
    for text in texts:
        broker, sign, directory = text.partition("=")
        if not sign or not broker.isdecimal() or not directory:
            raise ConfigError(f"--log-dir {text!r} is not allowed: give N=DIR, as in 0=/var/logs")
        found[int(broker)] = Path(directory)
    return found


command.add_command(reset_command)
