"""`zkbroker records`: delete the older records of partitions."""

import json
import sys
from pathlib import Path

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, say
from zkbroker.errors import ConfigError
from zkbroker.types import PartitionKey

END = "end"


@click.group(
    "records",
    epilog="\b\nExample:\n  zkbroker records delete visits-0:4711 -b 127.0.0.1:9092",
)
def command() -> None:
    """Delete the older records of partitions."""


@command.command(
    "delete",
    epilog="\b\nExamples:\n"
    "  zkbroker records delete visits-0:4711 visits-1:end -b 127.0.0.1:9092\n"
    "  zkbroker records delete --file offsets.json -z 127.0.0.1:2181",
)
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION:OFFSET]...")
@cluster_options
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='The same in the genuine form: {"partitions":[{"topic":"t","partition":0,"offset":5}]}.',
)
@click.option("--genuine-text", is_flag=True, hidden=True)
@json_option
def delete_command(
    partitions: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    file: Path | None,
    genuine_text: bool,
    as_json: bool,
) -> None:
    """Delete all records of partitions below an offset.

    OFFSET is where the log starts afterwards; `end` deletes all that consumers may read. Deleted
    records cannot be restored. Exit status 1 when one partition failed.
    """
    from zkbroker.admin.broker_queries import delete_records

    starts = dict(_parse(text) for text in partitions)
    if file is not None:
        starts.update(_read(file))
    if not starts:
        raise click.UsageError("give TOPIC-PARTITION:OFFSET, as in visits-0:4711, or --file")
    if genuine_text:
        say("Executing records delete operation")
    with open_cluster(bootstrap, zookeeper) as cluster:
        outcomes = delete_records(cluster, starts)
    failed = any(each.error is not None for each in outcomes.values())
    if genuine_text:
        say("Records delete operation completed:")
    if as_json:
        print_json(
            [
                {
                    "topic": topic,
                    "partition": number,
                    "log_start_offset": None if each.error else each.start_offset,
                    "error": None if each.error is None else str(each.error),
                }
                for (topic, number), each in sorted(outcomes.items())
            ]
        )
    for (topic, number), each in sorted(outcomes.items()):
        if as_json:
            continue
        if genuine_text:
            found = f"low_watermark: {each.start_offset}"
            say(f"partition: {topic}-{number}\t{f'error: {each.error}' if each.error else found}")
        elif each.error is not None:
            say(f"{topic}-{number}: not deleted: {each.error}", err=True)
        else:
            say(f"{topic}-{number} starts at offset {each.start_offset}")
    if failed and not genuine_text:
        sys.exit(1)


def _parse(text: str) -> tuple[PartitionKey, int]:
    name, colon, offset = text.rpartition(":")
    topic, dash, number = name.rpartition("-")
    if not colon or not topic or not dash or not number.isdecimal():
        raise ConfigError(f"{text!r} is not allowed: give TOPIC-PARTITION:OFFSET, as in visits-0:5")
    return (topic, int(number)), _offset(offset, text)


def _offset(offset: str, text: str) -> int:
    from zkbroker.admin.broker_queries import HIGH_WATERMARK

    if offset in (END, str(HIGH_WATERMARK)):
        return HIGH_WATERMARK
    if not offset.isascii() or not offset.isdecimal() or int(offset) >= 1 << 63:
        raise ConfigError(f"{text!r} is not allowed: OFFSET is a number, or end")
    return int(offset)


def _read(file: Path) -> dict[PartitionKey, int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        starts = {
            (str(each["topic"]), int(each["partition"])): _offset(str(each["offset"]), str(each))
            for each in found["partitions"]
        }
        if len(starts) < len(found["partitions"]):
            raise ConfigError(f"{file} names a partition twice")
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f'{file}: give {{"partitions":[{{"topic":"t","partition":0,"offset":5}}]}} ({error})'
        ) from error
    return starts
