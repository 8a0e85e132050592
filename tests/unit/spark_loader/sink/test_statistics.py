"""Statistics of a Parquet footer in the form of the Delta protocol."""

import datetime as dt
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_loader.sink.statistics import has_order, statistics

US = pa.timestamp("us", tz="UTC")


def stats(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return json.loads(statistics(pq.read_metadata(file)))


def test_bounds_and_null_counts_cover_all_row_groups():
    table = pa.table(
        {
            "n": pa.array([5, None, 1, 9]),
            "day": pa.array([dt.date(2015, 5, 17)] * 4),
            "text": ["b", "a" * 40, "c", "b"],
            "none": pa.array([None] * 4, pa.int64()),
            "f": [1.0, float("nan"), 2.0, 3.0],
        }
    )
    found = stats(table, row_group_size=2)
    assert found["numRecords"] == 4
    assert found["minValues"] == {"n": 1, "day": "2015-05-17", "text": "a" * 32}
    assert found["maxValues"] == {"n": 9, "day": "2015-05-17", "text": "c"}
    assert found["nullCount"] == {"n": 1, "day": 0, "text": 0, "none": 4, "f": 0}


def test_time_bounds_are_rounded_outwards():
    table = pa.table({"at": pa.array([1_001, 1_999_001], US)})
    found = stats(table)
    assert found["minValues"]["at"] == "1970-01-01T00:00:00.001Z"
    assert found["maxValues"]["at"] == "1970-01-01T00:00:02.000Z"


def test_times_out_of_calendar_have_no_bounds():
    table = pa.table({"at": pa.array([0, 2**62], US)})
    found = stats(table)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"at": 0})


def test_columns_without_statistics_are_left_out():
    table = pa.table({"n": [1], "value": [b"x"]})
    found = stats(table, write_statistics=["n"])
    assert found["nullCount"] == {"n": 0}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(pa.int32(), True), (pa.string(), True), (US, True), (pa.binary(), False),
     (pa.list_(pa.int32()), False)],
)  # fmt: skip
def test_bytes_and_lists_have_no_order(kind, expected):
    assert has_order(kind) is expected
