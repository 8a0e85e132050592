"""Options of the source are parsed and checked."""

import pickle

import pytest

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import check_connect
from spark_loader.reading.options import SourceOptions, parse_connect
from spark_loader.reading.positions import (
    EARLIEST_BOUND,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    AtTimes,
    TopicPartition,
)
from zkbroker.errors import ConfigError

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


def parse(streaming=False, **more):
    given = {**BASE, **{key.replace("_", "."): value for key, value in more.items()}}
    return SourceOptions.parse(given, streaming=streaming)


def test_defaults_match_spark_kafka_source():
    batch, stream = parse(), parse(streaming=True)
    assert batch.starting == EARLIEST_BOUND
    assert batch.ending == LATEST_BOUND
    assert stream.starting == LATEST_BOUND
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (batch.connect.retries, batch.connect.retry_interval_ms) == (3, 10)
    assert batch.max_trigger_delay_ms == 15 * 60_000
    assert (batch.max_offsets_per_trigger, batch.min_partitions) == (None, None)


def test_option_names_are_case_insensitive():
    assert parse(INCLUDEHEADERS="true", FailOnDataLoss="FALSE").include_headers


def test_timestamp_bounds_take_precedence_over_offsets():
    everything = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"0":6}}',
        "startingOffsets": '{"t":{"0":7}}',
    }
    assert parse(**everything).starting == AtTime(5)
    del everything["startingTimestamp"]
    assert parse(**everything).starting == AtTimes({TopicPartition("t", 0): 6})
    del everything["startingOffsetsByTimestamp"]
    assert parse(**everything).starting == AtOffsets({TopicPartition("t", 0): 7})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "t-0 cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "t-0 cannot be earliest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "not an offset"),
        ({"startingOffsets": "soon"}, "'soon': give earliest, latest or JSON"),
        ({"endingOffsets": "soon"}, "'soon': give latest or JSON"),
        ({"startingOffsets": "{soon"}, "not JSON"),
        ({"startingOffsets": '{"t":[1]}'}, "not of the form"),
        ({"startingTimestamp": "-4"}, "not a time"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "negative"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"assign": '{"t":[0]}'}, "exactly one"),
        ({"minPartitions": "0"}, "whole number from 1"),
        ({"minPartitions": "x"}, "minPartitions='x'"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "must not be above"),
        ({"maxTriggerDelay": "soon"}, "not a duration"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "not supported"),
        ({"kafka.key.deserializer": "x"}, "not supported"),
        ({"kafka.value.deserializer": "x"}, "not supported"),
        ({"kafka.interceptor.classes": "x"}, "not supported"),
        ({"kafka.security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"kafka.bootstrap.servers": "nowhere"}, "not HOST:PORT"),
    ],
)
def test_invalid_options_are_refused_by_name(more, message):
    with pytest.raises(ConfigError, match="(?i)" + message.replace("(", r"\(").replace("|", r"\|")):
        SourceOptions.parse({**BASE, **more}, streaming=False)


@pytest.mark.parametrize("option", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_stream_refuses_ending_options(option):
    with pytest.raises(ConfigError, match=option):
        SourceOptions.parse({**BASE, option: "latest"}, streaming=True)


def test_missing_topic_or_cluster_is_refused():
    with pytest.raises(ConfigError, match="given: none"):
        SourceOptions.parse({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        SourceOptions.parse({"subscribe": "t"}, streaming=False)
    with pytest.raises(ConfigError, match="no cluster"):
        ConnectOptions()


def test_subscription_forms_are_parsed():
    assert parse(subscribe=" a, b,a").subscription.subscribe == ("a", "b")
    cluster = {"zookeeper.connect": "h:2181/c"}
    assigned = SourceOptions.parse({**cluster, "assign": '{"t":[1,0]}'}, streaming=False)
    assert assigned.subscription.assign == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert assigned.connect.zookeeper == "h:2181/c"
    pattern = SourceOptions.parse({**cluster, "subscribePattern": "a.*"}, streaming=False)
    assert pattern.subscription.pattern == "a.*"
    with pytest.raises(ConfigError, match="not a regex"):
        SourceOptions.parse({**cluster, "subscribePattern": "("}, streaming=False)


def test_unused_options_are_logged(caplog):
    given = {**BASE, "kafka.max.poll.records": "5", "kafka.client.id": "me"}
    SourceOptions.parse(given, streaming=False)
    assert "without effect on this source kafka.max.poll.records" in caplog.text


@pytest.mark.parametrize("name", ["kafka.isolation.level", "isolation.level"])
def test_isolation_level_selects_read_committed(name):
    assert not parse().connect.read_committed
    assert parse(**{name: "read_committed"}).connect.read_committed
    assert not parse(**{name: "read_uncommitted"}).connect.read_committed
    with pytest.raises(ConfigError, match="give read_uncommitted or read_committed"):
        parse(**{name: "serializable"})


def test_conflicting_or_unsupported_isolation_levels_are_refused():
    with pytest.raises(ConfigError, match="differ"):
        parse(**{"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"})
    with pytest.raises(ConfigError, match="no transactions"):
        check_connect(ConnectOptions(generation="0.7", zookeeper="z", read_committed=True))


def test_security_options_are_those_of_kafka():
    given = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.bootstrap.servers": "h:1",
    }
    connect = parse_connect(given)
    assert connect.security.protocol == "SSL"
    assert connect.security.tls.truststore_location == "/ca.pem"
    assert pickle.loads(pickle.dumps(connect)) == connect
    old = given | {"kafka.generation": "0.7", "zookeeper.connect": "z:1"}
    del old["kafka.bootstrap.servers"]
    with pytest.raises(ConfigError, match="neither TLS nor"):
        parse_connect(old)
