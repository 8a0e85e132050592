import pytest

from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.errors import ConfigError


def read(**properties):
    warnings = []
    given = {"bootstrap.servers": "a:1,b:2", "group.id": "g"} | properties
    return GroupConsumerConfig.from_properties(given, warn=warnings.append), warnings


def test_java_consumer_file_is_read():
    config, warnings = read(
        **{
            "session.timeout.ms": "30000",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor,"
            "org.apache.kafka.clients.consumer.RoundRobinAssignor,mine",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "max.poll.record": "7",
        }
    )
    assert config.bootstrap_servers == ("a:1", "b:2")
    assert config.session_timeout_ms == 30_000
    assert config.auto_offset_reset == "earliest"
    assert config.enable_auto_commit is False
    assert config.strategies == ("sticky", "roundrobin", "mine")
    assert len(warnings) == 2
    assert any("key_decoder" in text for text in warnings)
    assert any("max.poll.records" in text for text in warnings)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("smallest", "earliest"), ("largest", "latest"), ("Latest", "latest"), ("fail", "none")],
)
def test_older_names_of_reset_policy_are_read(given, meant):
    assert read(**{"auto.offset.reset": given})[0].auto_offset_reset == meant


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"auto.offset.reset": "middle"}, "earliest, latest, none"),
        ({"heartbeat.interval.ms": "10000"}, "less than session.timeout.ms=10000"),
        ({"session.timeout.ms": "3000"}, "heartbeat.interval.ms=3000 is not allowed"),
        ({"zookeeper.connect": "z:2181"}, r"either bootstrap\.servers or zookeeper\.connect"),
        ({"bootstrap.servers": ""}, r"either bootstrap\.servers or zookeeper\.connect"),
        ({"partition.assignment.strategy": ""}, "names of assignors"),
    ],
)
def test_invalid_value_is_refused_with_allowed_values(properties, message):
    with pytest.raises(ConfigError, match=message):
        read(**properties)


def test_fetcher_settings_have_same_limits():
    config, _ = read(**{"max.partition.fetch.bytes": "1000", "fetch.max.bytes": "5000"})
    fetching = config.fetching(3)
    assert fetching.partition_bytes == 1000
    assert fetching.response_bytes == 5000
    assert fetching.queued_chunks == 3
    assert fetching.auto_offset_reset == "largest"


def test_short_session_timeout_is_accepted_as_in_java():
    config, warnings = read(**{"session.timeout.ms": "6000"})
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (6000, 3000)
    assert warnings == []
