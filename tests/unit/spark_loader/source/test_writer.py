"""Rows of Spark become messages; unsupported rows and options are refused in the driver."""

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from spark_loader.source.writer import RowSink, producer_properties
from zkbroker.errors import ClientError, ConfigError

CONNECT = {"kafka.bootstrap.servers": "b:1"}


def schema(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_topic_option_overrides_topic_column():
    sink = RowSink.of(
        {**CONNECT, "topic": "to"}, schema(topic=StringType(), key=StringType(), value=BinaryType())
    )
    batch = pa.RecordBatch.from_pydict({"topic": ["x"], "key": ["k"], "value": [b"v"]})
    (message,) = sink._messages(batch)
    assert (message.topic, message.key, message.value, message.partition) == (
        "to",
        b"k",
        b"v",
        None,
    )


def test_topic_column_selects_topic():
    sink = RowSink.of(
        CONNECT, schema(topic=StringType(), value=StringType(), partition=IntegerType())
    )
    batch = pa.RecordBatch.from_pydict({"topic": ["x"], "value": [None], "partition": [3]})
    (message,) = sink._messages(batch)
    assert (message.topic, message.key, message.value, message.partition) == ("x", None, None, 3)
    with pytest.raises(ClientError, match="a row has no topic"):
        sink._messages(
            pa.RecordBatch.from_pydict({"topic": pa.array([None], pa.string()), "value": ["v"],
                                        "partition": [0]})
        )  # fmt: skip


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ({"topic": StringType()}, "a column named value"),
        ({"value": StringType()}, "an option topic or a column topic"),
        ({"topic": StringType(), "value": IntegerType()}, "column value is integer"),
    ],
)
def test_unsupported_schema_is_refused(types, reason):
    with pytest.raises(ConfigError, match=reason):
        RowSink.of(CONNECT, schema(**types))


def test_read_options_are_logged_as_unused(caplog):
    RowSink.of({**CONNECT, "topic": "to", "subscribe": "from"}, schema(value=StringType()))
    assert [each.getMessage() for each in caplog.records] == [
        "options without effect on this sink subscribe"
    ]


def test_producer_is_idempotent_and_synchronous_by_default():
    found = producer_properties({**CONNECT, "kafka.acks": "1", "kafka.check.crcs": "false"})
    assert found["acks"] == "1"
    assert found["enable.idempotence"] == "true"
    assert (found["producer.type"], found["metadata.broker.list"]) == ("sync", "b:1")
    assert "check.crcs" not in found


def test_stream_can_write_in_transactions():
    given = {**CONNECT, "topic": "t", "transactionalIdPrefix": "copy"}
    sink = RowSink.of(given, schema(value=StringType()), streaming=True)
    assert sink.transactional == "copy"
    assert sink.properties["transaction.timeout.ms"] == "900000"
    given["kafka.transaction.timeout.ms"] = "5000"
    sink = RowSink.of(given, schema(value=StringType()), streaming=True)
    assert sink.properties["transaction.timeout.ms"] == "5000"


@pytest.mark.parametrize(
    ("options", "streaming", "reason"),
    [
        ({"transactionalIdPrefix": "p"}, False, "is for writeStream"),
        ({"transactionalIdPrefix": " "}, True, "is empty"),
        ({"kafka.transactional.id": "p"}, True, "give transactionalIdPrefix"),
        ({"transactionalIdPrefix": "p", "kafka.acks": "1"}, True, "acks=1 is not allowed"),
    ],
)
def test_options_conflicting_with_transactions_are_refused(options, streaming, reason):
    with pytest.raises(ConfigError, match=reason):
        RowSink.of(
            {**CONNECT, "topic": "t", **options}, schema(value=StringType()), streaming=streaming
        )
