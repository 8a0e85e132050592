"""Options of the command line that turn values into columns."""

from pathlib import Path
from typing import Any

import click

from spark_loader.columns.spec import ValueColumns
from zkbroker.cli.settings import grouped
from zkbroker.errors import ConfigError

column_options = grouped(
    click.option(
        "--columns-json",
        metavar="[NAME=]FIELD:TYPE,…",
        help="Fields of JSON values as columns: status:int,user.id:long,"
        "at:timestamp[ms]. Types: string, binary, boolean, byte, short, int, long, float, "
        "double, date, timestamp, timestamp[FORMAT], decimal(DIGITS,SCALE).",
    ),
    click.option(
        "--columns-regex",
        metavar="REGEX",
        help="Named groups of a regex (RE2) as columns: '(?P<host>\\S+) …'.",
    ),
    click.option(
        "--columns-types",
        metavar="[NAME=]GROUP:TYPE,…",
        help="Types of those groups; string where none is given.",
    ),
    click.option(
        "--columns-access-log",
        is_flag=True,
        help="Lines of an access log as columns: host, user, time, method, path, protocol, "
        "status, bytes, referer, agent. Event times come from the lines.",
    ),
    click.option(
        "--columns-avro",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="SCHEMA.avsc",
        help="Fields of Avro records as columns.",
    ),
    click.option(
        "--avro-header",
        type=click.Choice(["none", "confluent"]),
        default="none",
        show_default=True,
        help="Prefix of each record: none, or the schema id of Confluent's serializers.",
    ),
)
"""Add the options that turn values into columns."""


def value_columns(given: dict[str, Any]) -> ValueColumns | None:
    """Make the columns of values from the options of the command line; None for none."""
    kinds = ("columns_json", "columns_regex", "columns_access_log", "columns_avro")
    chosen = [name for name in kinds if given.get(name) not in (None, False)]
    if len(chosen) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise ConfigError(f"{names} are given: columns come from one of them")
    if given.get("columns_types") and chosen != ["columns_regex"]:
        raise ConfigError("--columns-types are those of --columns-regex, which is not given")
    header = given.get("avro_header", "none")
    if header != "none" and chosen != ["columns_avro"]:
        raise ConfigError("--avro-header is that of --columns-avro, which is not given")
    zone = given.get("time_zone", "UTC")
    match chosen:
        case ["columns_json"]:
            return ValueColumns.json(given["columns_json"], zone=zone)
        case ["columns_regex"]:
            types = given.get("columns_types") or ""
            return ValueColumns.regex(given["columns_regex"], types, zone=zone)
        case ["columns_access_log"]:
            return ValueColumns.access_log(zone=zone)
        case ["columns_avro"]:
            path: Path = given["columns_avro"]
            return ValueColumns.avro(path.read_text(), header)
    return None
