"""`zkbroker offsets`: log offsets, and the offsets that ZooKeeper groups committed."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_session, zookeeper_option
from zkbroker.cli.output import json_option, print_json
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.discovery import Cluster

_NAMED_TIMES = {"latest": -1, "earliest": -2}


@click.group(
    "offsets",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits\n"
    "  zkbroker offsets export -z 127.0.0.1:2181 > offsets.txt\n"
    "  zkbroker offsets reset counters earliest -z 127.0.0.1:2181 -t visits",
)
def command() -> None:
    """Look up log offsets; export, import and reset those of ZooKeeper groups."""


@command.command(
    "get",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits --time earliest\n"
    "  zkbroker offsets get -b 127.0.0.1:9092 -t visits --time 1431857100000 --offsets 5",
)
@cluster_options
@click.option("-t", "--topic", required=True)
@click.option("--partitions", help="Numbers separated by commas; all without it.")
@click.option(
    "--time", "when", default="latest", show_default=True, help="latest, earliest or ms since 1970."
)
@click.option(
    "--offsets",
    "count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many; beyond one, the starts of segments last written before the time.",
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
    """Print offsets by time as `topic:partition:offset,offset`, as GetOffsetShell does."""
    from zkbroker.consumer import SimpleConsumer

    time_ms = parse_time(when)
    found: list[tuple[int, list[int]]] = []
    with open_cluster(bootstrap, zookeeper) as cluster:
        wanted = chosen_partitions(cluster, topic, partitions)
        brokers = cluster.brokers()
        for partition in wanted:
            leader = cluster.leader(topic, partition)
            if leader is None:
                click.echo(f"partition {partition} does not have a leader. Skip it", err=True)
                continue
            with SimpleConsumer(brokers[leader].host, brokers[leader].port) as consumer:
                offsets = consumer.get_offsets_before(topic, partition, time_ms, count)
            found.append((partition, offsets))
    if as_json:
        print_json([{"topic": topic, "partition": p, "offsets": offsets} for p, offsets in found])
        return
    for partition, offsets in found:
        click.echo(f"{topic}:{partition}:{','.join(map(str, offsets))}")


@command.command("export", epilog="\b\nExample:\n  zkbroker offsets export counters -o offsets.txt")
@click.argument("groups", nargs=-1)
@zookeeper_option
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path))
def export_command(
    groups: tuple[str, ...], zookeeper: str | None, output_file: Path | None
) -> None:
    """Write the committed offsets of ZooKeeper groups, as ExportZkOffsets does."""
    from zkbroker.admin.zk_groups import export_offsets

    with open_session(zookeeper) as session:
        lines = list(export_offsets(session, groups))
    text = "".join(f"{line}\n" for line in lines)
    if output_file is None:
        click.echo(text, nl=False)
    else:
        output_file.write_text(text, encoding="utf-8")
        click.echo(f"exported {len(lines)} offsets to {output_file}")


@command.command("import", epilog="\b\nExample:\n  zkbroker offsets import offsets.txt")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@zookeeper_option
def import_command(file: Path, zookeeper: str | None) -> None:
    """Commit exported offsets, as ImportZkOffsets does; all lines or none."""
    from zkbroker.admin.zk_groups import import_offsets

    with open_session(zookeeper) as session:
        count = import_offsets(session, file.read_text(encoding="utf-8").splitlines())
    click.echo(f"imported {count} offsets")


@command.command(
    "reset",
    epilog="\b\nExamples:\n"
    "  zkbroker offsets reset counters earliest -t visits\n"
    "  zkbroker offsets reset counters 1431857100000 -t visits --dry-run",
)
@click.argument("group")
@click.argument("when", metavar="earliest|latest|MS")
@zookeeper_option
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only print what would be committed.")
def reset_command(
    group: str, when: str, zookeeper: str | None, topics: tuple[str, ...], dry_run: bool
) -> None:
    """Commit the offsets of a time for a ZooKeeper group without members."""
    from zkbroker.admin.zk_groups import set_offsets
    from zkbroker.consumer.resolve import resolve_or_end

    time_ms = parse_time(when)
    with open_cluster(None, zookeeper) as cluster:
        keys = [(topic, info.partition) for topic in topics for info in cluster.partitions(topic)]
        offsets = resolve_or_end(cluster, dict.fromkeys(keys, time_ms))
    if not dry_run:
        with open_session(zookeeper) as session:
            set_offsets(session, group, offsets)
    for (topic, partition), offset in sorted(offsets.items()):
        click.echo(f"/consumers/{group}/offsets/{topic}/{partition}:{offset}")
    if dry_run:
        click.echo("dry run: nothing was committed", err=True)


def parse_time(text: str) -> int:
    """Turn `latest`, `earliest`, -1, -2 or milliseconds into what requests carry.

    Raises:
        ConfigError: it is none of these.
    """
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    try:
        time_ms = int(text)
    except ValueError:
        time_ms = -3
    if time_ms < min(_NAMED_TIMES.values()):
        raise ConfigError(f"time {text!r} is not allowed: give latest, earliest or ms since 1970")
    return time_ms


def chosen_partitions(cluster: "Cluster", topic: str, text: str | None) -> list[int]:
    """Return the partitions named in a list, all of the topic without one.

    Raises:
        ConfigError: one of them does not exist.
    """
    known = [info.partition for info in cluster.partitions(topic)]
    if not text:
        return known
    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"partitions {text!r} are not allowed: give numbers, as in 0,1") from None
    for partition in wanted:
        if partition not in known:
            raise ConfigError(
                f"topic {topic} has no partition {partition}; it has 0 to {known[-1]}"
            )
    return wanted
