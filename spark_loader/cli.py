"""`zkbroker-load`: load topics, look at what was loaded, prove it, move positions.

Without a command it loads. Exit status: 0 all is well, 1 the load or the check failed (the message
says why and what to do), 2 the command line is wrong.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from spark_loader.eventtime import EventTime
from spark_loader.job import Loader, LoadResult
from spark_loader.load_options import LoadOptions
from spark_loader.options import parse_duration_ms
from spark_loader.positions import (
    EARLIEST_BOUND,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    Bound,
    parse_partition_numbers,
)
from spark_loader.progress import Progress
from spark_loader.reader import POLICIES
from spark_loader.sink import FALLBACKS, FORMATS
from zkbroker import __version__
from zkbroker.cli.main import run
from zkbroker.errors import ConfigError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Bytes(click.ParamType[int]):
    """A number of bytes, with k, m, g or t for powers of 1024."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        unit = text[-1:] if text[-1:].isalpha() else ""
        number = text.removesuffix(unit)
        if unit not in _UNITS or not number.isdecimal():
            self.fail(f"{value!r} is not a size: give 1000000, 512k, 128m or 1g", param, ctx)
        return int(number) * _UNITS[unit]


class LoadByDefault(click.Group):
    """Runs `load` when the first word is no command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (
            args[0] not in self.commands and args[0] not in ("-h", "--help", "--version")
        ):
            args = ["load", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=LoadByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="zkbroker-load %(version)s")
def cli() -> None:
    """Load topics into a lake with Spark; each record counts exactly once.

    Run it again at any time: it goes on where the last run ended, and takes up a run that was
    stopped with the same offset ranges. `zkbroker-load load --help` lists the options of a load.
    """


def cluster_options(command: Any) -> Any:
    """Add the options that say which cluster and which topics."""
    for option in reversed(
        (
            click.option("--zookeeper", default="", metavar="HOST:PORT[/CHROOT]"),
            click.option("--bootstrap", default="", metavar="HOST:PORT,…", help="Some brokers."),
            click.option("--topic", "topics", multiple=True, help="Topic to load; repeatable."),
            click.option("--whitelist", default="", metavar="REGEX", help="Topics to load."),
            click.option("--blacklist", default="", metavar="REGEX", help="Topics to leave out."),
            output_option,
            click.option("--group", default="", help="Consumer group to commit offsets for."),
            click.option(
                "--from",
                "starting",
                default="earliest",
                show_default=True,
                metavar="WHERE",
                help="Where the first run begins: earliest, latest, a time (ISO 8601 or "
                "milliseconds) or JSON offsets.",
            ),
            click.option(
                "--on-out-of-range",
                "policies",
                multiple=True,
                metavar="[TOPIC[:PARTITION]=]POLICY",
                help=f"When offsets are gone: {', '.join(POLICIES)}; repeatable.  [default: fail]",
            ),
            click.option("--max-records", type=click.IntRange(1), help="Most records per run."),
            click.option("--max-bytes", type=Bytes(), help="About the most log bytes per run."),
            click.option("--split-bytes", type=Bytes(), help="Split partitions larger than this."),
            click.option("--group-bytes", type=Bytes(), help="Let smaller ones share a mapper."),
        )
    ):
        command = option(command)
    return command


output_option = click.option("--output", required=True, metavar="DIR", help="Path or Hadoop URI.")


@cli.command()
@cluster_options
@click.option("--max-time", metavar="DURATION", help="Stop after about this: 90s, 15m, 2h.")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), default="parquet")
@click.option("--event-time-regex", metavar="REGEX", help="Event time: a group of this regex.")
@click.option("--event-time-json", metavar="FIELD", help="Event time: a field of JSON values.")
@click.option("--access-log", is_flag=True, help="Event time: that of an access log's line.")
@click.option("--event-time-format", default="", help="strptime format, or iso, s, ms, us.")
@click.option("--time-zone", default="UTC", show_default=True, help="Of times, and of hours.")
@click.option(
    "--event-time-fallback",
    type=click.Choice(FALLBACKS),
    default="quarantine",
    show_default=True,
    help="For records without an event time.",
)
@click.option("--target-file-bytes", type=Bytes(), help="Close files at about this size.")
@click.option("--compression", type=click.Choice(["snappy", "zstd", "gzip", "none"]))
@click.option("--headers", is_flag=True, help="Load record headers too.")
@click.option("--keep-damaged", is_flag=True, help="Quarantine damaged log entries.")
@click.option(
    "--max-quarantined", type=int, default=1000, show_default=True, help="Per mapper; -1 for any."
)
@click.option("--master", default="local[*,4]", show_default=True, help="Spark master.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON only.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def load(as_json: bool, quiet: bool, master: str, conf: tuple[str, ...], **given: Any) -> None:
    """Load what is new."""
    options = load_options(given)
    spark_conf = dict(_pair(each, "--conf") for each in conf)
    if quiet or as_json or not sys.stderr.isatty():
        result = Loader(options, master=master, spark_conf=spark_conf).run()
    else:
        with ProgressBar() as bar:
            loader = Loader(options, master=master, spark_conf=spark_conf, progress=bar.update)
            result = loader.run()
    if as_json:
        click.echo(json.dumps(result_as_json(result)))
    else:
        Console().print(summary(result, options))


def load_options(given: dict[str, Any]) -> LoadOptions:
    """Make the options of a load from those of the command line."""
    policies: dict[str, str] = {}
    default_policy = "fail"
    for each in given.get("policies", ()):
        name, equals, policy = each.rpartition("=")
        if equals:
            policies[name] = policy
        else:
            default_policy = policy
    max_time = given.get("max_time")
    optional: dict[str, Any] = {
        "max_records": given.get("max_records"),
        "max_bytes": given.get("max_bytes"),
        "max_seconds": parse_duration_ms(max_time) / 1000 if max_time else None,
        "split_bytes": given.get("split_bytes"),
        "group_bytes": given.get("group_bytes"),
        "target_bytes": given.get("target_file_bytes"),
        "compression": given.get("compression"),
        "format": given.get("format_"),
        "fallback": given.get("event_time_fallback"),
    }
    limit = given.get("max_quarantined", 1000)
    return LoadOptions(
        output=given["output"],
        topics=given["topics"],
        whitelist=given["whitelist"],
        blacklist=given["blacklist"],
        zookeeper=given["zookeeper"],
        bootstrap=given["bootstrap"],
        group=given["group"],
        starting=starting_bound(given["starting"]),
        on_out_of_range=default_policy,
        policies=policies,
        event_time=event_time(given),
        headers=given.get("headers", False),
        keep_damaged=given.get("keep_damaged", False),
        max_quarantined=limit if limit >= 0 else None,
        **{name: value for name, value in optional.items() if value is not None},
    )


def event_time(given: dict[str, Any]) -> EventTime:
    """Make the event time from the options of the command line."""
    regex, field = given.get("event_time_regex"), given.get("event_time_json")
    log = given.get("access_log", False)
    if sum((bool(regex), bool(field), log)) > 1:
        raise ConfigError("give one of --event-time-regex, --event-time-json and --access-log")
    layout, zone = given.get("event_time_format", ""), given.get("time_zone", "UTC")
    if log:
        return EventTime.access_log(zone=zone)
    if regex:
        return EventTime.regex(regex, layout, zone=zone)
    if field:
        return EventTime.json(field, layout, zone=zone)
    return EventTime(zone=zone)


def starting_bound(text: str) -> Bound:
    """Parse `--from`; raise ConfigError when it is none of the forms."""
    named = {"earliest": EARLIEST_BOUND, "latest": LATEST_BOUND}.get(text)
    if named is not None:
        return named
    if text.startswith("{"):
        return AtOffsets(parse_partition_numbers(text, "--from"))
    if text.isdecimal():
        return AtTime(int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--from {text!r}: give earliest, latest, a time such as 2015-05-17T10:00:00Z, "
            'milliseconds since 1970 or JSON such as {"topic": {"0": 23}}'
        ) from None
    return AtTime(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


class ProgressBar:
    """Shows rows, rows per second and lag on the terminal's error stream."""

    def __init__(self) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} rows/s  lag {task.fields[lag]:,}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bars.add_task("plan", total=None, rate="-", lag=0)

    def __enter__(self) -> "ProgressBar":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def update(self, progress: Progress) -> None:
        """Take a report of the load."""
        speed = next((each.speed for each in self._bars.tasks if each.id == self._task), None)
        self._bars.update(
            self._task,
            description=progress.stage,
            completed=progress.rows,
            total=progress.planned_rows or None,
            lag=progress.lag,
            rate=f"{speed:,.0f}" if speed else "-",
        )


def summary(result: LoadResult, options: LoadOptions) -> Table:
    """Return the table printed at the end."""
    rate = result.rows / result.seconds if result.seconds else 0.0
    table = Table(
        title=f"{result.rows:,} rows in {result.seconds:.1f} s ({rate:,.0f}/s) → {options.output}",
        caption=(
            f"run {result.run}, {len(result.files)} files, {result.bytes:,} bytes, "
            f"{result.quarantined:,} quarantined, lag {result.lag:,}"
            + (f", resumed ({result.adopted} mappers kept)" if result.resumed else "")
            if result.run
            else "nothing new"
        ),
    )
    for name in ("topic", "partition", "from", "until", "offsets"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for each in result.ranges:
        table.add_row(
            each.topic, str(each.partition), str(each.start), str(each.until), f"{each.size:,}"
        )
    for gap in result.gaps:
        table.add_row(
            gap.topic, str(gap.partition), str(gap.start), str(gap.until), f"gap: {gap.cause}"
        )
    return table


def result_as_json(result: LoadResult) -> dict[str, Any]:
    """Return a result as JSON holds it."""
    content = dataclasses.asdict(result)
    for name in ("ranges", "gaps"):
        for each in content[name]:
            each["from"] = each.pop("start")
            each.pop("estimated_bytes", None)
    return content


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{option} {text!r} is not KEY=VALUE")
    return key, value


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `zkbroker-load` script."""
    run(cli, arguments, "zkbroker-load")


if __name__ == "__main__":
    main()
