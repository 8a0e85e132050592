"""Settings of mirrors: property files, genuine names, and refused settings."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.mirror import MirrorConfig, SourceConfig

GIVEN = {
    "whitelist": "orders",
    "source.east.zookeeper.connect": "east:2181",
    "source.east.group.id": "mirror",
    "source.west.bootstrap.servers": "west:9092",
    "source.west.group.id": "mirror",
    "target.bootstrap.servers": "here:9092",
}


def make(**more: str) -> MirrorConfig:
    return MirrorConfig.from_properties(GIVEN | {k.replace("_", "."): v for k, v in more.items()})


def test_one_file_configures_sources_and_target():
    config = make(target_name="here")
    east, west = config.sources
    assert (east.name, east.by_coordinator, east.group_id) == ("east", False, "mirror")
    assert (west.name, west.by_coordinator) == ("west", True)
    assert config.target_name == "here"
    assert config.writes_paths
    assert not make(target_name="here", topic_prefix="x.").writes_paths
    assert make(topic_prefix="{source}.").prefix(east) == "east."


def test_consumers_start_at_log_start_without_auto_commit():
    east, west = make(source_east_auto_commit_enable="true").sources
    connector = east.connector(0)
    assert connector.auto_commit_enable is False
    assert (connector.auto_offset_reset, connector.isolation_level) == (
        "smallest",
        "read_committed",
    )
    group = west.group_consumer(0)
    assert group.enable_auto_commit is False
    assert (group.auto_offset_reset, group.isolation_level) == ("earliest", "read_committed")


def test_configured_reset_policy_is_kept():
    (east, _) = make(source_east_autooffset_reset="largest").sources
    assert east.connector(0).auto_offset_reset == "largest"


def test_streams_get_distinct_consumer_ids():
    (east, _) = make(source_east_consumer_id="me").sources
    assert [east.connector(n).consumer_id for n in range(2)] == ["me", "me-1"]


def test_producer_defaults_lose_no_message():
    producer = make().producer(idempotent=True)
    assert (producer.required_acks, producer.idempotence, producer.linger_ms) == (-1, True, 0)
    assert producer.retries == producer.delivery_timeout_ms == 2**31 - 1
    assert make(target_acks="1").producer(idempotent=False).required_acks == 1


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("source.west.kafka.generation", "0.7", "bootstrap.servers: a cluster of Kafka 0.7"),
        ("source.east.kafka.generation", "0.6", "kafka.generation='0.6' is not allowed"),
        ("target.acks", "0", "go unnoticed"),
        ("target.interceptor.classes", "a:B", "whole batches"),
        ("blacklist", "x", "exactly one"),
        ("target.name", "east", "name of a source"),
        ("num.streams", "0", "num.streams"),
        ("target.transactional.id", "x", "transactional.id"),
        ("source.west.group.id", "", "group.id"),
    ],
)
def test_settings_that_break_guarantees_are_refused(setting, value, why):
    with pytest.raises(ConfigError, match=why):
        MirrorConfig.from_properties(GIVEN | {setting: value})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["mirror-mirror-east", "mirror-mirror-west"]),
        # One name for both would fence each other's producers, and skip messages of one of them.
        ({"exactly.once.id": "x"}, ["x-east", "x-west"]),
    ],
)
def test_each_source_keeps_its_position_under_own_name(given, names):
    found = MirrorConfig.from_properties(GIVEN | {"exactly.once": "true"} | given)
    assert [found.exactly_once_name(source) for source in found.sources] == names


def test_source_prefix_needs_source_names():
    nameless = SourceConfig(properties={"zookeeper.connect": "x:1", "group.id": "g"})
    with pytest.raises(ConfigError, match="needs a name for every source"):
        MirrorConfig.from_properties(
            {"whitelist": "x", "topic.prefix": "{source}."},
            sources=[nameless],
            target={"bootstrap.servers": "here:9092"},
        )
    with pytest.raises(ConfigError, match="no source"):
        MirrorConfig.from_properties({"whitelist": "x"}, target={"bootstrap.servers": "h:9092"})
