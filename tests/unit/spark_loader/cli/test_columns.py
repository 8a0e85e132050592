"""Column options of the command line."""

import pyarrow as pa
import pytest

from spark_loader.cli.columns import value_columns
from spark_loader.cli.options import event_time, file_options
from spark_loader.sink.event_time import EventTime
from zkbroker.errors import ConfigError


def names(**given):
    columns = value_columns(given)
    return [] if columns is None else [each.name for each in columns.columns]


def test_options_select_kind_of_columns(tmp_path):
    assert names() == []
    assert names(columns_json="a:int,b.c:long") == ["a", "b_c"]
    assert names(columns_regex="(?P<x>.)(?P<y>.)", columns_types="z=x:int") == ["z", "y"]
    assert names(columns_access_log=True)[:3] == ["host", "user", "time"]
    pytest.importorskip("fastavro")
    schema = tmp_path / "a.avsc"
    schema.write_text('{"type": "record", "name": "r", "fields": [{"name": "f", "type": "int"}]}')
    assert names(columns_avro=schema, avro_header="confluent") == ["f"]


def test_conflicting_column_options_are_refused():
    with pytest.raises(ConfigError, match="--columns-json and --columns-access-log are given"):
        names(columns_json="a:int", columns_access_log=True)
    with pytest.raises(ConfigError, match="--columns-types are those of --columns-regex"):
        names(columns_json="a:int", columns_types="a:int")
    with pytest.raises(ConfigError, match="--avro-header is that of --columns-avro"):
        names(columns_json="a:int", avro_header="confluent")
    with pytest.raises(ConfigError, match="names no column"):
        names(columns_json="")


def test_access_log_columns_supply_event_time():
    assert event_time({"columns_access_log": True, "access_log": True}) == EventTime.column("time")
    found = file_options({"event_time_column": "at", "columns_json": "at:timestamp"})
    assert found["event_time"] == EventTime.column("at")
    assert found["columns"].fields == [pa.field("at", pa.timestamp("us", tz="UTC"))]
