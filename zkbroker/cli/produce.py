"""`zkbroker produce`: messages from standard input or files, with kcat's habits."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from zkbroker.cli.compat.kcat_habits import (
    brokers_of,
    kcat_switches,
    properties_option,
)
from zkbroker.cli.connection import cluster_options, discovery_properties
from zkbroker.cli.generation import (
    PartitionNumber,
    command_generation,
    generation_option,
)
from zkbroker.cli.message_format import parse_delimiter
from zkbroker.cli.output import say, warn
from zkbroker.cli.security import use_security
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.codecs import CODEC_NAMES

if TYPE_CHECKING:
    from zkbroker.producer import SendFuture

_BLOCK_BYTES = 1 << 16


@click.command(
    "produce",
    epilog="\b\nExamples:\n"
    "  tail -F access.log | zkbroker produce -b 127.0.0.1:9092 -t visits\n"
    "  zkbroker produce -z 127.0.0.1:2181 -t visits -K : --codec snappy < keyed-lines\n"
    "  zkbroker produce -b 127.0.0.1:9092 -t pictures -k cat cat.png\n"
    "  zkbroker produce --kafka-generation 0.7 -z 127.0.0.1:2181/kafka07 -t visits < lines",
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@cluster_options
@click.option("-t", "--topic", required=True, help="Topic to publish to.")
@click.option(
    "-p", "--partition", type=PartitionNumber(-1), help="Partition; chosen by key if not given."
)
@click.option("-k", "--key", help="One key for every message.")
@click.option(
    "-K",
    "--key-delimiter",
    metavar="DELIM",
    help="Delimiter between the key and the value of each message.",
)
@click.option(
    "-D", "--delimiter", metavar="DELIM", default="\\n", show_default=True, help="Ends a message."
)
@click.option("-Z", "--empty-as-null", is_flag=True, help="Send empty values and keys as null.")
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    help="A header; one without = is null.",
)
@click.option("-l", "--lines", is_flag=True, help="Messages are the lines of the FILE.")
@click.option("-T", "--tee", is_flag=True, help="Print what was sent, as tee does.")
@click.option("--skip-empty", is_flag=True, help="Send no empty lines, as kcat does.")
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--codec",
    type=click.Choice(CODEC_NAMES),
    help="Compression, none by default; kcat's -z CODEC is understood too.",
)
@generation_option
@properties_option
@settings_option("-X", text="A producer property, such as -X request.required.acks=-1.")
@click.option("-u", "unbuffered", is_flag=True, hidden=True, expose_value=False)
@kcat_switches("-P")
def command(
    files: tuple[Path, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str,
    partition: int | None,
    key: str | None,
    key_delimiter: str | None,
    delimiter: str,
    empty_as_null: bool,
    headers: tuple[str, ...],
    lines: bool,
    tee: bool,
    skip_empty: bool,
    count: int | None,
    codec: str | None,
    generation: str | None,
    properties_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Publish messages: lines of standard input, or each FILE as one message.

    Exit status 0 means that every message was acknowledged; in Kafka 0.7, which has no
    acknowledgements, that every message was sent. Options are kcat's; unlike there, empty lines are
    messages too.
    """
    from zkbroker.admin.cluster_tree import require_cluster
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.config.properties import load_properties
    from zkbroker.producer import KeyedMessage, Producer
    from zkbroker.producer.errors import Undelivered

    if zookeeper in CODEC_NAMES:
        codec, zookeeper = zookeeper, None
    if lines and len(files) != 1:
        raise click.UsageError("-l takes one FILE, whose lines are the messages")
    if partition is not None and partition < 0:
        partition = None
    given = {
        **(load_properties(properties_file) if properties_file else {}),
        **parse_settings(settings, "-X"),
    }
    use_security(given)
    other = command_generation(generation, given)
    if other is not None and headers and not other.has_headers:
        raise click.UsageError(f"messages of Kafka {other.name} have no headers: leave out -H")
    properties = {
        **discovery_properties(brokers_of(given) if bootstrap is None else bootstrap, zookeeper),
        # Lines must be sent while more are being typed.
        "producer.type": "async",
        "queue.buffering.max.ms": "50",
    }
    if not given.keys() & {"request.required.acks", "acks", "transactional.id"}:
        properties["request.required.acks"] = "1"
    if codec is not None:
        properties["compression.codec"] = codec
    properties |= given
    end = parse_delimiter(delimiter)
    if not end:
        raise click.UsageError("-D must not be empty: it splits the input into messages")
    split_key = None if key_delimiter is None else parse_delimiter(key_delimiter)
    fixed_key = None if key is None else key.encode()
    fixed_headers = tuple(map(_header, headers))
    sent = 0
    failed = 0
    with ExitStack() as stack:
        if lines:
            source: BinaryIO = stack.enter_context(files[0].open("rb"))
            values = read_messages(source, end)
        elif files:
            values = (file.read_bytes() for file in files)
        else:
            values = read_messages(sys.stdin.buffer, end)
        # `report` counts the messages that failed, and prints why the first one did.
        stack.enter_context(suppress(Undelivered))
        config = (
            ProducerConfig.from_properties(properties, warn=warn)
            if other is None
            else other.command_producer(properties, given, warn)
        )
        shared = config if isinstance(config, ProducerConfig) else config.producer()
        if shared.zookeeper_connect:
            require_cluster(shared.zookeeper_connect, shared.security.zookeeper)
        producer = stack.enter_context(Producer(config))
        if shared.transactional_id:
            # The transaction makes all of the input visible, or none if it cannot be read to its
            # end.
            stack.enter_context(producer.transaction())

        def report(future: "SendFuture") -> None:
            nonlocal failed
            error = future.exception()
            if error is not None:
                failed += 1
                if failed == 1:
                    say(f"error: {error}", err=True)

        for value in values:
            if skip_empty and not value:
                continue
            message_key, body = fixed_key, value
            if split_key is not None and split_key in value:
                message_key, _, body = value.partition(split_key)
            producer.send(
                KeyedMessage(
                    topic,
                    None if empty_as_null and not body else body,
                    key=None if empty_as_null and not message_key else message_key,
                    partition=partition,
                    headers=fixed_headers,
                )
            ).add_done_callback(report)
            if tee:
                sys.stdout.buffer.write(value + end)
                sys.stdout.buffer.flush()
            sent += 1
            if sent == count:
                break
    if failed:
        say(f"error: {failed} of {sent} messages were not acknowledged", err=True)
        sys.exit(1)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    return name, value.encode() if equals else None


def read_messages(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Yield each message as soon as its delimiter is read; an empty last piece is dropped."""
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK_BYTES):
        *whole, rest = (rest + block).split(delimiter)
        yield from whole
    if rest:
        yield rest
