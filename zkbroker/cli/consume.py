"""`zkbroker consume`: messages to standard output, with kcat's habits."""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from zkbroker.cli.compat.kcat_habits import brokers_of, kcat_switches, properties_option
from zkbroker.cli.connection import NO_CLUSTER, cluster_options, open_cluster
from zkbroker.cli.generation import (
    PartitionNumber,
    command_generation,
    generation_option,
    plain_start,
    require_zookeeper,
)
from zkbroker.cli.message_format import Piece, compile_format, json_line, parse_delimiter
from zkbroker.cli.output import say
from zkbroker.cli.positions import Anchor, parse_range
from zkbroker.cli.security import current_security, security_properties, use_security
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.cli.unpacking import parse_serdes
from zkbroker.errors import ClientError, ConfigError

if TYPE_CHECKING:
    from zkbroker.consumer import MessageAndMetadata


@click.command(
    "consume",
    epilog="\b\nExamples:\n"
    "  zkbroker consume -b 127.0.0.1:9092 -t visits -o -10 -e\n"
    "  zkbroker consume -z 127.0.0.1:2181 -t visits -f '%p %o %k: %s\\n'\n"
    "  zkbroker consume -b 127.0.0.1:9092 -t visits -o s@1431857100000 -J | jq .payload\n"
    "  zkbroker consume -b 127.0.0.1:9092 -G counters visits clicks\n"
    "  zkbroker consume -z 127.0.0.1:2181 -G counters visits clicks\n"
    "  zkbroker consume --kafka-generation 0.7 -z 127.0.0.1:2181/kafka07 -t visits -e",
)
@click.argument("topics", nargs=-1)
@cluster_options
@click.option("-t", "--topic", help="Topic to read.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=PartitionNumber(-1),
    multiple=True,
    help="Only this partition; repeatable. In Kafka 0.7 BROKER-NUMBER.",
)
@click.option(
    "-G",
    "--group",
    help="Share the TOPICS with a group, kept by its coordinator with -b, by ZooKeeper "
    "with -z. A topic that begins with ^ is a regular expression.",
)
@click.option(
    "-o",
    "--offset",
    "offsets",
    metavar="WHERE",
    multiple=True,
    help="beginning, end, stored, N, -N (before the end), s@TIME (from), e@TIME (until); a time is "
    "ms since 1970, or a date as 2026-11-23T10:00.",
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
@click.option(
    "-s",
    "serdes",
    metavar="[key=|value=]FORMAT",
    multiple=True,
    help="Show bytes as numbers: bBhHiIqQ, c, s (the rest), $ (the end), < or > for their order.",
)
@click.option(
    "--skip-message-on-error",
    "skip_unshown",
    is_flag=True,
    help="Go on after a message that -s cannot show; reading ends there without it.",
)
@click.option(
    "--delete-consumer-offsets",
    "delete_group",
    is_flag=True,
    help="Delete the group of -G from ZooKeeper first; it must have no members.",
)
@click.option("--blacklist", is_flag=True, hidden=True)
@click.option("-u", "--unbuffered", is_flag=True, help="Write each message out at once.")
@generation_option
@properties_option
@settings_option("-X", text="A consumer property; repeatable.")
@click.option("-O", "offset_switch", is_flag=True, hidden=True, expose_value=False)
@kcat_switches("-C")
@click.pass_context
def command(
    context: click.Context,
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
    serdes: tuple[str, ...],
    skip_unshown: bool,
    delete_group: bool,
    blacklist: bool,
    unbuffered: bool,
    generation: str | None,
    properties_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Print messages of a topic, all its partitions or some.

    Without -e or -c it waits for more until Ctrl-C. Options are kcat's.
    """
    from zkbroker.cli.reading import of_coordinator_group, of_partitions, of_zookeeper_group
    from zkbroker.config.properties import load_properties
    from zkbroker.consumer import ConsumerTimeout

    names = [*([topic] if topic else []), *topics]
    if not names or (group is None and len(names) != 1):
        raise click.UsageError("name one topic: -t TOPIC (several only with -G GROUP)")
    chosen = parse_range(offsets)
    properties = {
        **(load_properties(properties_file) if properties_file else {}),
        **parse_settings(settings, "-X"),
    }
    use_security(properties)
    properties = {**security_properties(), **properties}
    bootstrap = bootstrap or brokers_of(properties)
    in_zookeeper = group is not None and _in_zookeeper(context, bootstrap, zookeeper)
    if delete_group and not in_zookeeper:
        raise click.UsageError(
            "--delete-consumer-offsets deletes a group that is kept in ZooKeeper: give -z and -G"
        )
    show = _printer(form, as_json, key_delimiter, delimiter, mark_null, serdes)
    out = sys.stdout.buffer
    printed = 0
    with ExitStack() as stack:
        other = command_generation(generation, properties)
        if other is not None:
            zookeeper = require_zookeeper(other, zookeeper or properties.get("zk.connect"))
        if other is not None and group is None:
            stream = stack.enter_context(
                other.read_partitions(
                    names[0],
                    partitions,
                    zookeeper or "",
                    plain_start(other, chosen),
                    exit_at_end=exit_at_end,
                    security=current_security().zookeeper,
                )
            )
        elif group is None:
            cluster = stack.enter_context(open_cluster(bootstrap, zookeeper))
            if as_json:

                def show(message: "MessageAndMetadata") -> bytes:
                    leader = cluster.leader(message.topic, message.partition)
                    return json_line(message, broker=leader)

            numbers = tuple(number for number in partitions if number >= 0)
            stream = stack.enter_context(
                of_partitions(
                    names[0], numbers, cluster, zookeeper, chosen, exit_at_end, properties
                )
            )
        elif in_zookeeper or other is not None:
            if other is None and (exit_at_end or offsets or partitions):
                raise click.UsageError(
                    "a group in ZooKeeper reads on from its own offsets, without -e, -o and -p: "
                    "give -X consumer.timeout.ms=5000 to stop after so long without a message, "
                    "-X auto.offset.reset=smallest to begin a new group at the beginning"
                )
            stream = stack.enter_context(
                of_zookeeper_group(
                    names,
                    zookeeper or "",
                    group,
                    properties,
                    other,
                    blacklist=blacklist,
                    delete_group=delete_group,
                )
            )
        else:
            if bootstrap is None:
                raise ConfigError(NO_CLUSTER)
            start = chosen.start if offsets and chosen.start.anchor is not Anchor.STORED else None
            if partitions or chosen.stop is not None:
                raise click.UsageError("a group shares whole topics: -p and e@ need no -G")
            stream = stack.enter_context(
                of_coordinator_group(names, bootstrap, group, start, exit_at_end, properties)
            )
        try:
            for message in stream:
                try:
                    shown = show(message)
                except ClientError as error:
                    if not skip_unshown:
                        raise
                    where = f"{message.topic}-{message.partition} offset {message.offset}"
                    say(f"skipped {where}: {error}", err=True)
                    shown = b""
                out.write(shown)
                printed += 1
                # A group commits a message when the next one is asked for: it is written by then.
                if unbuffered or group is not None or out.isatty():
                    out.flush()
                if printed == count:
                    break
        except ConsumerTimeout as quiet:
            out.flush()
            say(f"{quiet}", err=True)
    out.flush()


def _in_zookeeper(context: click.Context, bootstrap: str | None, zookeeper: str | None) -> bool:
    """Whether to use the group in ZooKeeper: by the command line, else by the environment."""
    if zookeeper is None or bootstrap is None:
        return zookeeper is not None
    sources = [context.get_parameter_source(name) for name in ("bootstrap", "zookeeper")]
    return sources[0] is not ParameterSource.COMMANDLINE and (
        sources[1] is ParameterSource.COMMANDLINE
    )


def _printer(
    form: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    mark_null: bool,
    serdes: tuple[str, ...],
) -> Piece:
    show_key, show_value = parse_serdes(serdes)
    if as_json:
        return json_line
    null = b"NULL" if mark_null else b""
    if form is not None:
        return compile_format(form, null=null, key=show_key, value=show_value)
    end = parse_delimiter(delimiter)
    body = compile_format("%s", null=null, value=show_value)
    if key_delimiter is None:
        return lambda message: body(message) + end
    between = parse_delimiter(key_delimiter)
    key = compile_format("%k", null=null, key=show_key)
    return lambda message: key(message) + between + body(message) + end
