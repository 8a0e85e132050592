"""Each property of the 0.7.2 consumer: its default and its effect."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.legacy07.consumer_config import ConsumerConfig07

NEEDED = {"groupid": "g", "zk.connect": "z:2181"}
# Of the description of 0.7.2: name, default, and another text with its value.
PROPERTIES = [
    ("consumerid", "consumer_id", "", "me", "me"),
    ("zk.sessiontimeout.ms", "zookeeper_session_timeout_ms", 6000, "9000", 9000),
    ("zk.connectiontimeout.ms", "zookeeper_connection_timeout_ms", 6000, "700", 700),
    ("zk.synctime.ms", "rebalance_backoff_ms", 2000, "300", 300),
    ("rebalance.backoff.ms", "rebalance_backoff_ms", 2000, "100", 100),
    ("rebalance.retries.max", "rebalance_max_retries", 4, "7", 7),
    ("socket.timeout.ms", "socket_timeout_ms", 30_000, "5", 5),
    ("socket.buffersize", "socket_receive_buffer_bytes", 65_536, "1000", 1000),
    ("fetch.size", "fetch_message_max_bytes", 1_048_576, "77", 77),
    ("autocommit.enable", "auto_commit_enable", True, "false", False),
    ("autocommit.interval.ms", "auto_commit_interval_ms", 10_000, "10", 10),
    ("queuedchunks.max", "queued_max_message_chunks", 10, "3", 3),
    ("autooffset.reset", "auto_offset_reset", "smallest", "largest", "largest"),
    ("consumer.timeout.ms", "consumer_timeout_ms", -1, "50", 50),
]


def parse(**more):
    warnings = []
    given = NEEDED | {key.replace("_", "."): value for key, value in more.items()}
    return ConsumerConfig07.from_properties(given, warn=warnings.append), warnings


@pytest.mark.parametrize(("key", "name", "default", "text", "value"), PROPERTIES)
def test_default_and_value_of_each_0_7_property(key, name, default, text, value):
    config, _ = parse()
    assert getattr(config.connector(), name) == default
    config = ConsumerConfig07.from_properties({**NEEDED, key: text})
    assert getattr(config.connector(), name) == value


def test_connection_timeout_defaults_to_session_timeout():
    config = ConsumerConfig07.from_properties({**NEEDED, "zk.sessiontimeout.ms": "1500"})
    assert config.connector().zookeeper_connection_timeout_ms == 1500


def test_fetcher_backoff_has_two_property_names():
    assert parse()[0].fetcher_backoff_ms == 1000
    assert parse(fetcher_backoff_ms="5")[0].fetcher_backoff_ms == 5
    assert parse(backoff_increment_ms="6")[0].fetcher_backoff_ms == 6


def test_unsupported_properties_are_refused_or_warned_of():
    with pytest.raises(ConfigError, match=r"shallowiterator\.enable=true"):
        parse(shallowiterator_enable="true")
    assert parse(shallowiterator_enable="false")[1] == []
    _, warnings = parse(mirror_topics_whitelist="t", kafka_generation="0.7")
    assert len(warnings) == 1
    assert "it is a setting of zkbroker mirror" in warnings[0]
    with pytest.raises(ConfigError, match="groupid"):
        ConsumerConfig07.from_properties({"zk.connect": "z"})


def test_internal_topics_are_not_excluded():
    assert parse()[0].connector().exclude_internal_topics is False
