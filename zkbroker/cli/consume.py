"""`zkbroker consume`: messages to standard output, with kcat's habits."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.message_format import Piece, compile_format, json_line, parse_delimiter
from zkbroker.cli.positions import Anchor, Position, Range, parse_range
from zkbroker.cli.settings import parse_settings
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.consumer import MessageAndMetadata
    from zkbroker.discovery import Cluster

Offsets = dict[tuple[str, int], int]


@click.command(
    "consume",
    epilog="\b\nExamples:\n"
    "  zkbroker consume -b 127.0.0.1:9092 -t visits -o -10 -e\n"
    "  zkbroker consume -z 127.0.0.1:2181 -t visits -f '%p %o %k: %s\\n'\n"
    "  zkbroker consume -b 127.0.0.1:9092 -t visits -o s@1431857100000 -J | jq .payload\n"
    "  zkbroker consume -z 127.0.0.1:2181 -G counters visits clicks",
)
@click.argument("topics", nargs=-1)
@cluster_options
@click.option("-t", "--topic", help="Topic to read.")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Repeatable."
)
@click.option("-G", "--group", help="Share the TOPICS with a group, through ZooKeeper.")
@click.option(
    "-o",
    "--offset",
    "offsets",
    metavar="WHERE",
    multiple=True,
    help="beginning, end, stored, N, -N (before the end), s@MS (from), e@MS (until).",
)
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the end as it is now.")
@click.option("-f", "--format", "form", help="Format: %t %p %o %T %k %K %s %S %R %h and escapes.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print the key and this first.")
@click.option(
    "-D", "--delimiter", metavar="DELIM", default="\\n", show_default=True, help="Ends a message."
)
@click.option("-Z", "--null-as-NULL", "mark_null", is_flag=True, help="Print NULL for null.")
@click.option("-u", "--unbuffered", is_flag=True, help="Write each message out at once.")
@click.option(
    "-X", "settings", metavar="KEY=VALUE", multiple=True, help="A consumer property; repeatable."
)
def command(
    topics: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str | None,
    partitions: tuple[int, ...],
    group: str | None,
    offsets: tuple[str, ...],
    count: int | None,
    exit_at_end: bool,
    form: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    mark_null: bool,
    unbuffered: bool,
    settings: tuple[str, ...],
) -> None:
    """Print messages of a topic, all its partitions or some.

    Without -e or -c it waits for more until Ctrl-C.
    """
    names = [*([topic] if topic else []), *topics]
    if not names or (group is None and len(names) != 1):
        raise click.UsageError("name one topic: -t TOPIC (several only with -G GROUP)")
    show = _printer(form, as_json, key_delimiter, delimiter, mark_null)
    properties = parse_settings(settings, "-X")
    if group is not None:
        messages = _of_group(names, zookeeper, group, properties)
    else:
        chosen = parse_range(offsets)
        messages = _of_partitions(
            names[0], partitions, bootstrap, zookeeper, chosen, exit_at_end, properties
        )
    out = sys.stdout.buffer
    printed = 0
    with messages as stream:
        for message in stream:
            out.write(show(message.topic, message.partition, message))
            printed += 1
            if unbuffered or out.isatty():
                out.flush()
            if printed == count:
                break
    out.flush()


def _printer(
    form: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    mark_null: bool,
) -> Piece:
    if as_json:
        return json_line
    null = b"NULL" if mark_null else b""
    if form is not None:
        return compile_format(form, null=null)
    end = parse_delimiter(delimiter)
    body = compile_format("%s", null=null)
    if key_delimiter is None:
        return lambda topic, partition, message: body(topic, partition, message) + end
    between = parse_delimiter(key_delimiter)
    key = compile_format("%k", null=null)
    return lambda topic, partition, message: (
        key(topic, partition, message) + between + body(topic, partition, message) + end
    )


@contextmanager
def _of_group(
    topics: list[str], zookeeper: str | None, group: str, properties: Mapping[str, str]
) -> "Iterator[Iterator[MessageAndMetadata]]":
    from zkbroker.config.consumer import ConsumerConfig
    from zkbroker.consumer import Consumer, Whitelist

    if zookeeper is None:
        raise ConfigError("a group needs ZooKeeper: give -z HOST:PORT[/CHROOT]")
    config = ConsumerConfig.from_properties(
        {"zookeeper.connect": zookeeper, "group.id": group, **properties}
    )
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams_by_filter(Whitelist(",".join(topics)), 1)
        yield iter(stream)


@contextmanager
def _of_partitions(
    topic: str,
    partitions: tuple[int, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    chosen: Range,
    exit_at_end: bool,
    properties: Mapping[str, str],
) -> "Iterator[Iterator[MessageAndMetadata]]":
    from zkbroker.config.consumer import ConsumerConfig
    from zkbroker.consumer import LATEST_TIME, AssignedConsumer
    from zkbroker.consumer.resolve import resolve_offsets, resolve_or_end

    group = properties.get("group.id", "none")
    config = ConsumerConfig.from_properties(
        {
            "zookeeper.connect": zookeeper or "none",
            "group.id": group,
            "auto.offset.reset": "smallest",
            **properties,
        }
    )
    with open_cluster(bootstrap, zookeeper) as cluster:
        known = [info.partition for info in cluster.partitions(topic)]
        unknown = sorted(set(partitions) - set(known))
        if unknown:
            raise ConfigError(
                f"topic {topic} has no partition {unknown[0]}; it has 0 to {known[-1]}"
            )
        keys = [(topic, partition) for partition in partitions or known]
        starts = _resolve(cluster, keys, chosen.start, zookeeper, group)
        stops: Offsets = {}
        if chosen.stop is not None:
            times = dict.fromkeys(keys, chosen.stop.value)
            stops = resolve_or_end(cluster, times, read_committed=config.read_committed)
        elif exit_at_end:
            # Taken once, so that the end comes also while others keep writing.
            latest = dict.fromkeys(keys, LATEST_TIME)
            ends = resolve_offsets(cluster, latest, read_committed=config.read_committed)
            stops = {key: end or 0 for key, end in ends.items()}
        with AssignedConsumer(cluster, starts, stop=stops, config=config) as consumer:
            yield iter(consumer)


def _resolve(
    cluster: "Cluster",
    keys: list[tuple[str, int]],
    position: Position,
    zookeeper: str | None,
    group: str,
) -> Offsets:
    from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME
    from zkbroker.consumer.resolve import (
        resolve_offsets,
        resolve_or_end,
    )

    if position.anchor is Anchor.OFFSET:
        return dict.fromkeys(keys, position.value)
    if position.anchor is Anchor.TIME:
        return resolve_or_end(cluster, dict.fromkeys(keys, position.value))
    if position.anchor is Anchor.STORED:
        return _stored(cluster, keys, zookeeper, group)
    beginnings = resolve_offsets(cluster, dict.fromkeys(keys, EARLIEST_TIME))
    first = {key: offset or 0 for key, offset in beginnings.items()}
    if position.anchor is Anchor.BEGINNING:
        return first
    ends = resolve_offsets(cluster, dict.fromkeys(keys, LATEST_TIME))
    return {key: max(first[key], (ends[key] or 0) - position.value) for key in keys}


def _stored(
    cluster: "Cluster", keys: list[tuple[str, int]], zookeeper: str | None, group: str
) -> Offsets:
    from zkbroker.cli.connection import open_session
    from zkbroker.registry.groups import read_offset

    if group == "none":
        raise ConfigError("-o stored needs the group whose offsets to take: -X group.id=GROUP")
    starts = _resolve(cluster, keys, Position(Anchor.BEGINNING), zookeeper, group)
    with open_session(zookeeper) as session:
        for key in keys:
            stored = read_offset(session, group, *key)
            if stored is not None:
                starts[key] = stored[0]
    return starts
