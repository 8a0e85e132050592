"""Avro records become columns."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

fastavro = pytest.importorskip("fastavro")

from spark_loader.columns.avro_values import AvroValues  # noqa: E402 - needs fastavro
from spark_loader.columns.spec import ValueColumns  # noqa: E402
from zkbroker.errors import ConfigError  # noqa: E402

SCHEMA = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "fields": [
        {"name": "host", "type": "string"},
        {"name": "count", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
        },
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "city", "type": "string"}],
            },
        },
        {"name": "other", "type": ["null", "Place"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
    ],
}
TIME_OF_DAY = {"type": "int", "logicalType": "time-millis"}
RECORD = {
    "host": "h",
    "count": None,
    "at": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
    "day": date(2015, 5, 17),
    "price": Decimal("1.25"),
    "kind": "B",
    "place": {"city": "Ulm"},
    "other": {"city": "Bern"},
    "tags": ["x"],
    "sizes": {"s": 3},
}


def encoded(record):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), record)
    return stream.getvalue()


def test_avro_records_become_columns_and_bad_values_are_reported():
    columns = ValueColumns.avro(json.dumps(SCHEMA))
    good = encoded(RECORD)
    values = pa.array([good, good[:-2], good + b"x", None], pa.binary())
    found, reasons = columns.rows().add(pa.RecordBatch.from_pydict({"value": values}))
    assert reasons.keys() == {1, 2}
    assert reasons[2].endswith("1 bytes are left over")
    row = found.drop_columns(["value"]).to_pylist()[0]
    assert row == {**RECORD, "sizes": [("s", 3)]}
    assert found.schema.field("other").type == pa.struct([("city", pa.string())])


def test_confluent_header_is_skipped_when_requested():
    value = b"\0\0\0\0\7" + encoded(RECORD)
    arrays, bad = AvroValues(json.dumps(SCHEMA), "confluent").convert(pa.array([value, b"\1abcde"]))
    assert arrays[0].to_pylist() == ["h", None]
    assert bad == {1: "not a record of the schema: it does not begin with the id of a schema"}
    assert AvroValues(json.dumps(SCHEMA)).convert(pa.array([value]))[1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not an Avro schema"),
        ('"string"', "that of a record"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "nope"}]}', "nope"),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "string"]}]}',
            "several types",
        ),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}',
            "holds itself",
        ),
        (
            json.dumps({**SCHEMA, "fields": [{"name": "a", "type": TIME_OF_DAY}]}),
            "no column type for time-millis",
        ),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "value", "type": "int"}]}',
            "of its own",
        ),
    ],
)
def test_unsupported_schemas_are_refused(schema, message):
    with pytest.raises(ConfigError, match=message):
        ValueColumns.avro(schema)
