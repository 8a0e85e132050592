"""Typed columns are added to batches; bad rows are reported one by one."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_loader.columns import converter
from spark_loader.columns.spec import ValueColumns

JSON = ValueColumns.json("a:long,t:string,b.c:double")
REGEX = ValueColumns.regex(r"(?P<n>\w+)=(?P<a>\d*)", "a:long")
GOOD = b'{"a": 1, "t": "x"}'
BAD = [b'{"a": 1.5}', b"[]", b"", b'{"a":1}{"a":2}', b'{"a":', b'1}{"a":2}', b'{"t":"\xff"}']
BAD += [b'{"a":"}', b'{"}', b" ", b'{"b": 3}', b'{"a":1,"a":2}', b"null"]


def batch(values):
    return pa.RecordBatch.from_pydict(
        {"value": pa.array(values, pa.binary()), "offset": pa.array(range(len(values)), pa.int64())}
    )


@given(st.lists(st.sampled_from([GOOD, None, *BAD]), max_size=40))
def test_bad_rows_do_not_affect_neighbours(values):
    found, reasons = JSON.rows().add(batch(values))
    assert reasons.keys() == {n for n, each in enumerate(values) if each in BAD}
    assert found.schema.names == ["value", "offset", "a", "t", "b_c"]
    rows = found.to_pylist()
    assert [row["offset"] for row in rows] == [*range(len(values))]
    for value, row in zip(values, rows, strict=True):
        if value not in BAD:
            assert (row["a"], row["t"]) == ((1, "x") if value == GOOD else (None, None))


@given(st.lists(st.one_of(st.binary(max_size=20), st.just(GOOD)), max_size=10))
@pytest.mark.parametrize("columns", [JSON, REGEX], ids=["json", "regex"])
def test_random_bytes_convert_the_same_alone_and_in_batch(columns, values):
    found, reasons = columns.rows().add(batch(values))
    rows = found.to_pylist()
    for index, value in enumerate(values):
        alone, why = columns.rows().add(batch([value]))
        assert bool(why) == (index in reasons)
        assert {**alone.to_pylist()[0], "offset": index} == rows[index]


def test_large_values_are_converted_in_smaller_pieces(monkeypatch):
    monkeypatch.setattr(converter, "_PIECE_BYTES", 100)
    values = [b'{"a": %d, "t": "%s"}' % (n, b"x" * 60) for n in range(20)]
    found, reasons = JSON.rows().add(batch([*values, b"no"]))
    assert found.column("a").to_pylist() == [*range(20), None]
    assert reasons.keys() == {20}


@pytest.mark.parametrize("count", [0, 1, 8192, 20_000])
def test_batches_of_any_size_keep_row_order(count):
    values = [b'{"a": %d}' % n for n in range(count)]
    if count > 9000:
        values[9000] = b"no"
    found, reasons = JSON.rows().add(batch(values))
    assert reasons.keys() == ({9000} if count > 9000 else set())
    wanted = [None if n in reasons else n for n in range(count)]
    assert found.column("a").to_pylist() == wanted


def test_rows_without_regex_match_are_bad():
    values = [b"x=1", b"none", b"y=", None, b"z=99999999999999999999"]
    found, reasons = REGEX.rows().add(batch(values))
    assert reasons.keys() == {1, 4}
    assert reasons[1] == "the columns' regex does not match"
    assert "group a: " in reasons[4]
    assert "99999999999999999999" in reasons[4]
    assert found.column("a").to_pylist() == [1, None, None, None, None]
    assert found.column("n").to_pylist()[2] == "y"
