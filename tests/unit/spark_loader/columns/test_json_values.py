"""JSON objects become columns."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_loader.columns.json_values import JsonValues
from spark_loader.columns.types import parse_columns
from zkbroker.errors import ConfigError


def convert(columns, *values):
    converter = JsonValues(parse_columns(columns, "--x"), "UTC")
    arrays, bad = converter.convert(pa.array(values, pa.binary()))
    return [each.to_pylist() for each in arrays], dict(bad)


def test_nested_fields_and_all_types_are_read():
    columns = (
        "a.b:long,a.c.d:string,m:decimal(5,2),at:timestamp,ms=n:timestamp[ms],day:date,ok:boolean"
    )
    value = (
        b'{"a": {"b": 5, "c": {"d": "\xc3\xa9"}, "other": [1]}, "m": 1.5, "ok": true,'
        b' "at": "2015-05-17T10:05:03Z", "n": 1431857103000, "day": "2015-05-17"}'
    )
    found, bad = convert(columns, value, b'{"a": null}', b' {\n"m": "2.25"}\n')
    when = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
    assert [column[0] for column in found] == [
        5, "é", Decimal("1.50"), when, when, date(2015, 5, 17), True,
    ]  # fmt: skip
    assert {column[1] for column in found} == {None}
    assert found[2][2] == Decimal("2.25")
    assert bad == {}


def test_type_mismatch_names_field():
    with pytest.raises(pa.ArrowInvalid, match=r"field a\.b: .*'soon'"):
        convert("a.b:timestamp", b'{"a": {"b": "soon"}}')
    with pytest.raises(pa.ArrowInvalid, match=r"^field a: string where number is expected$"):
        convert("a:int", b'{"a": "1"}')
    with pytest.raises(pa.ArrowInvalid, match=r"^field a\.b: number where string is expected$"):
        convert("a.b:string", b'{"a": {"b": 1}}')


def test_non_objects_are_bad_and_others_convert():
    found, bad = convert("a:int", b"[1]", b'{"a": 1}', b'"x"')
    assert found == [[None, 1, None]]
    assert bad == {0: "not a JSON object", 2: "not a JSON object"}
    assert convert("a:int", b"1")[1] == {0: "not a JSON object"}


@pytest.mark.parametrize("columns", ["a:int,x=a.b:int", "x=a.b:int,a:int", "a:int,b=a:long"])
def test_conflicting_field_definitions_are_refused(columns):
    with pytest.raises(ConfigError, match="field a"):
        JsonValues(parse_columns(columns, "--x"), "UTC")
