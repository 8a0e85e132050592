"""`zkbroker produce`: messages from standard input or files, with kcat's habits."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from zkbroker.cli.connection import cluster_options, discovery_properties
from zkbroker.cli.message_format import parse_delimiter
from zkbroker.cli.settings import parse_settings

if TYPE_CHECKING:
    from zkbroker.producer import SendFuture

_BLOCK_BYTES = 1 << 16


@click.command(
    "produce",
    epilog="\b\nExamples:\n"
    "  tail -F access.log | zkbroker produce -b 127.0.0.1:9092 -t visits\n"
    "  zkbroker produce -z 127.0.0.1:2181 -t visits -K : --codec snappy < keyed-lines\n"
    "  zkbroker produce -b 127.0.0.1:9092 -t pictures -k cat cat.png",
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@cluster_options
@click.option("-t", "--topic", required=True, help="Topic to publish to.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Partition; by key without it.")
@click.option("-k", "--key", help="One key for every message.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Splits each message: key, value.")
@click.option(
    "-D", "--delimiter", metavar="DELIM", default="\\n", show_default=True, help="Ends a message."
)
@click.option("-Z", "--empty-as-null", is_flag=True, help="Send empty values and keys as null.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header.")
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Compression.",
)
@click.option(
    "-X",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="A producer property, such as -X request.required.acks=-1.",
)
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
    count: int | None,
    codec: str,
    settings: tuple[str, ...],
) -> None:
    """Publish messages: lines of standard input, or each FILE as one message.

    Exit status 0 means that every message was acknowledged.
    """
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.producer import KeyedMessage, Producer

    properties = {
        "producer.type": "async",
        "request.required.acks": "1",
        "compression.codec": codec,
        # Lines are to show up while they are typed.
        "queue.buffering.max.ms": "50",
        **discovery_properties(bootstrap, zookeeper),
        **parse_settings(settings, "-X"),
    }
    split_key = None if key_delimiter is None else parse_delimiter(key_delimiter)
    fixed_key = None if key is None else key.encode()
    fixed_headers = tuple(
        (name, value.encode()) for name, value in parse_settings(headers, "-H").items()
    )
    values = (
        (file.read_bytes() for file in files)
        if files
        else read_messages(sys.stdin.buffer, parse_delimiter(delimiter))
    )
    sent = 0
    failed = 0
    with Producer(ProducerConfig.from_properties(properties)) as producer:

        def report(future: "SendFuture") -> None:
            nonlocal failed
            error = future.exception()
            if error is not None:
                failed += 1
                if failed == 1:
                    click.echo(f"error: {error}", err=True)

        for value in values:
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
            sent += 1
            if sent == count:
                break
    if failed:
        click.echo(f"error: {failed} of {sent} messages were not acknowledged", err=True)
        sys.exit(1)


def read_messages(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Yield what stands between delimiters as soon as it is there, without empty last piece."""
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK_BYTES):
        *whole, rest = (rest + block).split(delimiter)
        yield from whole
    if rest:
        yield rest
