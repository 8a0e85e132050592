"""Names of columns and their types, as the command line gives them.

    [NAME=]FIELD:TYPE,…       status:int,user.id:long,day=at:date,at:timestamp[%d/%b/%Y:%H:%M:%S %z]

A field of a field is named with dots; its column has `_` in their place unless it is given a name.

Invariant: a type that is parsed can be stored in Parquet, Delta and Spark as it is. No column has
    the name of one that each load has, compared without case as in Spark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from zkbroker.errors import ConfigError

TIMES = pa.timestamp("us", tz="UTC")
"""All timestamps are stored as microseconds UTC."""

_SCALARS = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMES,
}
# The names of SQL and of Arrow for the same types.
_ALSO = {
    "utf8": "string",
    "bool": "boolean",
    "int8": "byte",
    "tinyint": "byte",
    "int16": "short",
    "smallint": "short",
    "integer": "int",
    "int32": "int",
    "bigint": "long",
    "int64": "long",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "date32": "date",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FORMATTED = re.compile(r"(timestamp|date)\[(.+)\]")
_MOST_DIGITS = 38
NUMBERED = frozenset({"s", "ms", "us"})
"""Formats of times that are numbers since 1970."""
_SOME_TIME = datetime(2004, 11, 22, 13, 14, 15, tzinfo=UTC)
_NAME = re.compile(r"[^\W\d]\w*")
RESERVED = frozenset(
    {
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamptype",
        "headers",
        "position",
        "event_time",
        "date",
        "hour",
    }
)
"""Columns of every load, in lower case."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column that values are turned into.

    Attributes:
        name: of the column.
        path: names of the nested fields, outermost first; of a regex, the group alone.
        type: as it is stored.
        format: of a time: `iso` (or empty), `s`, `ms`, `us`, or as of `strptime`.
    """

    name: str
    path: tuple[str, ...]
    type: pa.DataType
    format: str = ""


def parse_columns(text: str, option: str) -> tuple[Column, ...]:
    """Parse `[NAME=]FIELD:TYPE,…`.

    Args:
        text: what was given.
        option: its name, for messages.

    Raises:
        ConfigError: it is not of this form, or two columns have one name.
    """
    columns = []
    for part in _split(text):
        named, colon, kind = _outside(part.strip(), ":")
        name, equals, field = named.rpartition("=")
        path = tuple(field.strip().split("."))
        if not colon or not all(path):
            raise ConfigError(
                f"{option} {part.strip()!r} is not [NAME=]FIELD:TYPE, such as status:int or "
                "user.id:long"
            )
        arrow, layout = parse_type(kind.strip(), option)
        columns.append(Column(name.strip() if equals else "_".join(path), path, arrow, layout))
    return checked(columns, option)


def checked(columns: Sequence[Column], option: str) -> tuple[Column, ...]:
    """Return columns whose names can stand side by side in a table.

    Raises:
        ConfigError: there are no columns, or a name is reserved, repeated or not a name.
    """
    seen: set[str] = set()
    for each in columns:
        plain = each.name.lower()
        if not _NAME.fullmatch(each.name):
            raise ConfigError(
                f"{option}: {each.name!r} cannot name a column: letters, digits and _ can; give "
                "another name by NAME=FIELD:TYPE"
            )
        if plain in RESERVED:
            raise ConfigError(
                f"{option}: each load has a column {plain} of its own: give another name by "
                f"NAME=FIELD:TYPE, such as my_{plain}={'.'.join(each.path)}:…"
            )
        if plain in seen:
            raise ConfigError(f"{option}: two columns are named {each.name}")
        seen.add(plain)
    if not columns:
        raise ConfigError(f"{option} names no column")
    return tuple(columns)


def parse_type(text: str, option: str) -> tuple[pa.DataType, str]:
    """Return the type that a name stands for, and the format of a time.

    Raises:
        ConfigError: the type is not known, or no time can be read by the format.
    """
    formatted = _FORMATTED.fullmatch(text)
    if formatted:
        _check_format(formatted[1], formatted[2], option)
        return _SCALARS[formatted[1]], formatted[2]
    plain = text.lower()
    decimal = _DECIMAL.fullmatch(plain)
    if decimal:
        digits, scale = int(decimal[1]), int(decimal[2])
        if not 0 < digits <= _MOST_DIGITS or scale > digits:
            raise ConfigError(
                f"{option}: {text} is not possible: give decimal(DIGITS,SCALE) with up to "
                f"{_MOST_DIGITS} digits, of which SCALE follow the point"
            )
        return pa.decimal128(digits, scale), ""
    found = _SCALARS.get(_ALSO.get(plain, plain))
    if found is None:
        raise ConfigError(
            f"{option}: the type {text!r} is not known: give {', '.join(_SCALARS)}, "
            "timestamp[FORMAT], date[FORMAT] or decimal(DIGITS,SCALE)"
        )
    return found, ""


def _check_format(kind: str, layout: str, option: str) -> None:
    """Check that a time written in a format can be read by it."""
    if layout == "iso" or (kind == "timestamp" and layout in NUMBERED):
        return
    try:
        text = _SOME_TIME.strftime(layout)
        pc.strptime(pa.array([text]), format=layout, unit="us", error_is_null=False)
        if "%" in layout:
            return
    except (ValueError, pa.ArrowInvalid):
        pass
    numbers = ", s, ms, us" if kind == "timestamp" else ""
    raise ConfigError(
        f"{option}: {kind}[{layout}] has no format that can be read: give iso{numbers} or one of "
        f"strptime in C, such as %Y-%m-%d; {kind} without a format reads ISO 8601, with fractions "
        "of a second"
    )


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type as it is given; Arrow's own where there is none."""
    for name, arrow in _SCALARS.items():
        if arrow == kind:
            return name
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return str(kind)


def _split(text: str) -> list[str]:
    """Split at commas that are in no bracket."""
    parts, rest = [], text
    while rest.strip():
        part, _, rest = _outside(rest, ",")
        parts.append(part)
    return parts


def _outside(text: str, separator: str) -> tuple[str, str, str]:
    """Split a text at the first separator that is in no bracket."""
    depth = 0
    for index, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == separator and depth <= 0:
            return text[:index], separator, text[index + 1 :]
    return text, "", ""
