"""Rows into a file: Parquet, JSON lines and raw values."""

import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.sink.data_formats import DATA_FORMATS
from spark_loader.sink.rows import ParquetRows, repeating, times_as_ms
from spark_loader.storage.files import HashingFile

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)
WHEN = datetime(2020, 1, 1, tzinfo=UTC)
TABLE = pa.table(
    {
        "offset": [5, 6],
        "key": [b"k", None],
        "value": ["ü".encode(), b"\xff"],
        "event_time": [WHEN, WHEN],
    },
    schema=SCHEMA,
)


def written(kind):
    out = io.BytesIO()
    writer = DATA_FORMATS[kind].writer(HashingFile(out), SCHEMA, "snappy")
    writer.write(TABLE)
    writer.close()
    return out.getvalue()


def test_json_lines_encode_binary_as_base64():
    one, two = map(json.loads, written("json").splitlines())
    assert one == {"offset": 5, "key": "k", "value": "ü", "event_time": 1_577_836_800_000}
    assert two == {
        "offset": 6,
        "key": None,
        "value_base64": "/w==",
        "event_time": one["event_time"],
    }


def test_raw_format_writes_one_value_per_line():
    assert written("raw") == "ü\n".encode() + b"\xff\n"


def test_parquet_round_trips():
    assert pq.read_table(io.BytesIO(written("parquet"))).equals(TABLE)


def test_times_become_milliseconds():
    found = times_as_ms(TABLE)
    assert found.column("event_time").to_pylist() == [1_577_836_800_000] * 2
    assert found.drop_columns("event_time").equals(TABLE.drop_columns("event_time"))


def test_times_between_milliseconds_are_cut_to_them():
    finer = pa.array([1_577_836_800_123_999, None], pa.timestamp("us", tz="UTC"))
    found = times_as_ms(pa.table({"at": finer}))
    assert found.column("at").to_pylist() == [1_577_836_800_123, None]


def test_only_repeating_columns_use_dictionaries():
    rows = 5000
    table = pa.table(
        {
            "partition": pa.array([3] * rows, pa.int32()),
            "value": pa.array([b"same"] * rows, pa.binary()),
            "status": [200 + n % 3 for n in range(rows)],
            "path": [f"/{n}" for n in range(rows)],
            "gone": pa.nulls(rows, pa.string()),
            "place": [{"city": "Ulm"}] * rows,
        }
    )
    assert repeating(table) == ["partition", "status", "gone"]
    out = io.BytesIO()
    writer = ParquetRows(HashingFile(out), table.schema, "snappy")
    writer.write(table)
    writer.close()
    assert writer.metadata.num_rows == rows
    assert pq.read_table(io.BytesIO(out.getvalue())).equals(table)
