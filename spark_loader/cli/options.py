"""Options that several commands share, and the values they are parsed into."""

import functools
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from spark_loader.cli.columns import column_options, value_columns
from spark_loader.cli.types import Bytes, Seconds
from spark_loader.lake.formats import TABLE_FORMATS
from spark_loader.load.options import LoadOptions
from spark_loader.reading.options import ISOLATION_LEVELS
from spark_loader.reading.positions import (
    EARLIEST_BOUND,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    Bound,
    parse_partition_numbers,
)
from spark_loader.reading.reader import POLICIES
from spark_loader.sink.data_formats import DATA_FORMATS
from spark_loader.sink.event_time import EventTime, to_ms, zone_of
from spark_loader.sink.hours import FALLBACKS
from spark_loader.sink.rows import COMPRESSIONS
from zkbroker.cli.connection import NO_CLUSTER
from zkbroker.cli.connection import cluster_options as discovery_options
from zkbroker.cli.security import current_security
from zkbroker.cli.settings import grouped
from zkbroker.errors import ConfigError

DEBUG = "spark_loader.debug"
"""Key in a context's `meta`: whole traces are asked for."""


def output_option(command: Any) -> Any:
    """Add the lake's directory, as an argument or `--output`; the command gets it as `output`."""

    @functools.wraps(command)
    def with_output(*args: Any, directory: str | None, output: str | None, **given: Any) -> Any:
        if directory and output and directory != output:
            raise click.UsageError(f"both {directory} and --output {output} are given: give one")
        if not (directory or output):
            raise click.UsageError("no directory is named: give DIR, or --output DIR")
        return command(*args, output=directory or output, **given)

    option = click.option("--output", metavar="DIR", help="Path, s3://BUCKET/DIR or Hadoop URI.")
    return click.argument("directory", required=False, metavar="[DIR]")(option(with_output))


def topic_option(command: Any) -> Any:
    """Add `-t`, the one topic that a command is about."""
    return click.option("-t", "--topic", required=True, help="Topic.")(command)


generation_option = click.option(
    "--kafka-generation",
    "generation",
    default="",
    metavar="0.7",
    help="For a cluster of Kafka 0.7, found by its ZooKeeper.",
)


cluster_options = grouped(
    discovery_options,
    generation_option,
    click.option(
        "--isolation-level",
        type=click.Choice(ISOLATION_LEVELS),
        default=ISOLATION_LEVELS[0],
        show_default=True,
        help="read_committed leaves out aborted transactions, and waits for open ones.",
    ),
    click.option("-t", "--topic", "topics", multiple=True, help="Topic to load; repeatable."),
    click.option("--whitelist", default="", metavar="REGEX", help="Topics to load."),
    click.option("--blacklist", default="", metavar="REGEX", help="Topics to leave out."),
    output_option,
    click.option("-G", "--group", default="", help="Consumer group to commit offsets for."),
    click.option(
        "--from",
        "starting",
        default="earliest",
        show_default=True,
        metavar="WHERE",
        help="Where the first run begins: earliest, latest, a time (2026-11-23T10:00, in "
        "--time-zone unless it says another, or milliseconds) or JSON offsets. Without "
        "records since that time a partition begins at its end.",
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
    click.option(
        "--split-bytes",
        type=Bytes(),
        help="Split partitions with more to load than this.  [default: 1g]",
    ),
    click.option(
        "--group-bytes",
        type=Bytes(least=0),
        help="Let smaller ones share a mapper, and its files; 0 for none.  [default: 4m]",
    ),
)
"""Add the options that say which cluster and which topics."""


event_time_options = grouped(
    click.option(
        "--format",
        "format_",
        type=click.Choice(list(DATA_FORMATS)),
        default="parquet",
        show_default=True,
        help="Format of data files; JSON and raw lines are not in the table.",
    ),
    click.option("--event-time-regex", metavar="REGEX", help="Event time: the match of a regex."),
    click.option("--event-time-json", metavar="FIELD", help="Event time: a field of JSON."),
    click.option("--event-time-column", metavar="NAME", help="Event time of one of the columns."),
    click.option("--access-log", is_flag=True, help="Event time: the time of access log lines."),
    click.option(
        "--event-time-format",
        default="",
        metavar="FORMAT",
        help="Time format for --event-time-regex and -json: strptime, or iso, s, ms, us.",
    ),
    click.option(
        "--time-zone", default="UTC", show_default=True, help="Time zone of times and hours."
    ),
    click.option(
        "--event-time-fallback",
        type=click.Choice(FALLBACKS),
        default="quarantine",
        show_default=True,
        help="For records without an event time.",
    ),
    click.option(
        "--target-file-bytes",
        type=Bytes(),
        help="Begin another file at about this size.  [default: 128m]",
    ),
    click.option(
        "--compression",
        type=click.Choice(COMPRESSIONS),
        help="Compression of Parquet files.  [default: snappy]",
    ),
    column_options,
)
"""Add the options that say how rows become files."""


run_options = grouped(
    click.option(
        "--max-time",
        "max_seconds",
        type=Seconds(),
        metavar="DURATION",
        help="Stop after about this: 90s, 15m, 2h.",
    ),
    click.option(
        "--table",
        type=click.Choice(TABLE_FORMATS),
        help="Format of a new lake's table.  [default: delta]",
    ),
    click.option("--headers", is_flag=True, help="Load record headers too."),
    click.option("--keep-damaged", is_flag=True, help="Quarantine damaged log entries."),
    click.option(
        "--max-quarantined",
        type=click.IntRange(-1),
        default=1000,
        show_default=True,
        help="Most records that a mapper may quarantine; -1 for any number.",
    ),
    click.option(
        "--adopt",
        is_flag=True,
        help="If checkpoints are lost, adopt the data files as a new beginning.",
    ),
    click.option("--master", default="local[*,4]", show_default=True, help="Spark master."),
    click.option("--quiet", is_flag=True, help="No progress bar."),
)
"""Add the options of a load that are neither of the source nor of files."""


def _note_debug(ctx: click.Context, param: click.Parameter, debug: bool) -> None:
    ctx.meta[DEBUG] = debug


spark_options = grouped(
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_note_debug,
        help="Show the whole trace of an error, not only its cause.",
    ),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable."),
    click.option(
        "--storage-option",
        "storage",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting of s3://, such as AWS_ENDPOINT_URL=http://host:9000, beside those of "
        "the environment; repeatable.",
    ),
    click.option(
        "--properties-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Spark properties, as in spark-defaults.conf; --conf wins.",
    ),
)
"""Add the options that each command has: settings of Spark and of storage, and `--debug`."""


def spark_settings(given: dict[str, Any]) -> dict[str, str]:
    """Return the Spark properties of the command line; raise ConfigError for one without `=`."""
    settings: dict[str, str] = {}
    file: Path | None = given.get("properties_file")
    for line in file.read_text().splitlines() if file is not None else ():
        found = re.match(r"\s*([^#\s=:][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*?)\s*$", line)
        if found:
            settings[found[1]] = found[2]
    settings |= _pairs("--conf", given.get("conf", ()))
    for name in settings:
        if not name.startswith("spark."):
            raise ConfigError(f"{name} is no property of Spark: those begin with spark.")
    return settings


def storage_settings(given: dict[str, Any]) -> dict[str, str]:
    """Return the storage options of the command line; raise ConfigError for one without `=`."""
    return _pairs("--storage-option", given.get("storage", ()))


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for each in texts:
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"{option} {each!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


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
    names = ("max_records", "max_bytes", "max_seconds", "split_bytes", "group_bytes")
    optional = {name: given.get(name) for name in names}
    limit = given.get("max_quarantined", 1000)
    if not (given["zookeeper"] or given["bootstrap"]):
        raise ConfigError(NO_CLUSTER)
    return LoadOptions(
        output=given["output"],
        topics=given["topics"],
        whitelist=given["whitelist"],
        blacklist=given["blacklist"],
        generation=given.get("generation", ""),
        isolation_level=given.get("isolation_level", ISOLATION_LEVELS[0]),
        zookeeper=given["zookeeper"] or "",
        bootstrap=given["bootstrap"] or "",
        group=given["group"],
        starting=starting_bound(given["starting"], given.get("time_zone", "UTC")),
        on_out_of_range=default_policy,
        policies=policies,
        table=given.get("table") or "",
        headers=given.get("headers", False),
        keep_damaged=given.get("keep_damaged", False),
        max_quarantined=limit if limit >= 0 else None,
        adopt=given.get("adopt", False),
        security=current_security(),
        **file_options(given),
        **{name: value for name, value in optional.items() if value is not None},
    )


def event_time(given: dict[str, Any]) -> EventTime:
    """Make the event time from the command line's options."""
    regex, field = given.get("event_time_regex"), given.get("event_time_json")
    column, log = given.get("event_time_column"), given.get("access_log", False)
    if sum((regex is not None, field is not None, column is not None, log)) > 1:
        raise ConfigError(
            "give one of --event-time-regex, --event-time-json, --event-time-column and "
            "--access-log"
        )
    layout, zone = given.get("event_time_format", ""), given.get("time_zone", "UTC")
    if layout and regex is None and field is None:
        raise ConfigError(
            "--event-time-format is that of --event-time-regex or --event-time-json: give one of "
            "them, or leave it out"
        )
    if given.get("columns_access_log") and regex is None and field is None and column is None:
        # The column holds the line's time already, so the line is not parsed twice.
        column = "time"
    if column is not None:
        return EventTime.column(column, zone=zone)
    if log:
        return EventTime.access_log(zone=zone)
    if regex is not None:
        return EventTime.regex(regex, layout, zone=zone)
    if field is not None:
        return EventTime.json(field, layout, zone=zone)
    return EventTime(zone=zone)


def starting_bound(text: str, zone: str = "UTC") -> Bound:
    """Parse `--from`; raise ConfigError when it is none of the forms.

    Args:
        text: what was given.
        zone: IANA name, for a time without a zone of its own.
    """
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
    return AtTime(to_ms(when if when.tzinfo else when.replace(tzinfo=zone_of(zone))))


def file_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the command line says of event times and files, by the names of `SinkOptions`."""
    optional = {
        "event_time": event_time(given),
        "format": given.get("format_"),
        "fallback": given.get("event_time_fallback"),
        "target_bytes": given.get("target_file_bytes"),
        "compression": given.get("compression"),
        "columns": value_columns(given),
    }
    return {name: value for name, value in optional.items() if value is not None}
