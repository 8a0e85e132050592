"""Names and types of columns are parsed."""

import pyarrow as pa
import pytest

from spark_loader.columns.types import TIMES, Column, parse_columns, type_name
from zkbroker.errors import ConfigError


def test_column_definitions_are_parsed():
    text = "status:int, user.id:bigint,day=at:date,at:timestamp[%d/%b, %Y:%H],m:decimal(10, 2)"
    assert parse_columns(text, "--x") == (
        Column("status", ("status",), pa.int32()),
        Column("user_id", ("user", "id"), pa.int64()),
        Column("day", ("at",), pa.date32()),
        Column("at", ("at",), TIMES, "%d/%b, %Y:%H"),
        Column("m", ("m",), pa.decimal128(10, 2)),
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("string", pa.string()),
        ("Integer", pa.int32()),
        ("float64", pa.float64()),
        ("bool", pa.bool_()),
        ("timestamp", TIMES),
        ("tinyint", pa.int8()),
    ],
)
def test_type_names_of_spark_and_arrow_are_accepted(name, kind):
    (column,) = parse_columns(f"a:{name}", "--x")
    assert column.type == kind
    (again,) = parse_columns(f"a:{type_name(kind)}", "--x")
    assert again == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no column"),
        ("a", "is not .NAME=.FIELD:TYPE"),
        ("a:", "the type '' is not known"),
        ("a..b:int", "is not .NAME=.FIELD:TYPE"),
        ("a:text", "the type 'text' is not known: give string, "),
        ("a:decimal(2,3)", "is not possible"),
        ("a:decimal(39,3)", "up to 38 digits"),
        ("a:int,A:long", "two columns are named A"),
        ("a.b:int,a_b:long", "two columns are named a_b"),
        ("Offset:long", "column offset of its own.*my_offset=Offset"),
        ("a-b:int", "'a-b' cannot name a column.*NAME=FIELD:TYPE"),
    ],
)
def test_invalid_column_definitions_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_columns(text, "--x")


@pytest.mark.parametrize(
    "kind", ["timestamp[%Q]", "timestamp[%S.%f]", "timestamp[%Y%]", "timestamp[seconds]", "date[s]"]
)
def test_unreadable_time_formats_are_refused(kind):
    with pytest.raises(ConfigError, match="no format that can be read"):
        parse_columns(f"at:{kind}", "--columns-json")


@pytest.mark.parametrize(
    "kind", ["timestamp[iso]", "timestamp[us]", "timestamp[%e/%b/%y %I%p %z]", "date[%j of %Y]"]
)
def test_time_formats_are_parsed(kind):
    (column,) = parse_columns(f"at:{kind}", "--columns-json")
    assert f"[{column.format}]" in kind
