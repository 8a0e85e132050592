"""Settings of the consumers, with property files of both generations."""

import pytest

from zkbroker.config.consumer import ConsumerConfig, FetchConfig
from zkbroker.config.properties import parse_properties
from zkbroker.errors import ConfigError

FILE_OF_0_7 = """
# zookeeper connection string
zk.connect=127.0.0.1:2181/kafka
zk.connectiontimeout.ms=1000000
zk.sessiontimeout.ms=400
zk.synctime.ms=200
groupid=test-consumer-group
consumerid=first
socket.timeout.ms=15000
socket.buffersize=32768
fetch.size=500000
backoff.increment.ms=1000
autocommit.enable=false
autocommit.interval.ms=1234
autooffset.reset=largest
consumer.timeout.ms=5000
rebalance.retries.max=7
rebalance.backoff.ms=900
mirror.topics.whitelist=
mirror.topics.blacklist=x
mirror.consumer.numthreads=1
queuedchunks.max=20
"""

FILE_OF_0_8 = """
zookeeper.connect=127.0.0.1:2181
zookeeper.connection.timeout.ms=6000
zookeeper.session.timeout.ms=7000
zookeeper.sync.time.ms=2000
group.id=test-consumer-group
consumer.id=first
client.id=me
socket.timeout.ms=31000
socket.receive.buffer.bytes=65537
fetch.message.max.bytes=1048577
num.consumer.fetchers=2
auto.commit.enable=true
auto.commit.interval.ms=1000
queued.max.message.chunks=3
rebalance.max.retries=5
fetch.min.bytes=2
fetch.wait.max.ms=101
rebalance.backoff.ms=2001
refresh.leader.backoff.ms=201
auto.offset.reset=smallest
consumer.timeout.ms=10
offsets.storage=kafka
offsets.channel.backoff.ms=1001
offsets.channel.socket.timeout.ms=10001
offsets.commit.max.retries=6
dual.commit.enabled=false
partition.assignment.strategy=roundrobin
exclude.internal.topics=false
"""


def test_complete_0_7_file_is_read() -> None:
    warnings: list[str] = []
    config = ConsumerConfig.from_properties(parse_properties(FILE_OF_0_7), warn=warnings.append)
    assert config == ConsumerConfig(
        group_id="test-consumer-group",
        zookeeper_connect="127.0.0.1:2181/kafka",
        zookeeper_connection_timeout_ms=1_000_000,
        zookeeper_session_timeout_ms=400,
        consumer_id="first",
        socket_timeout_ms=15_000,
        socket_receive_buffer_bytes=32_768,
        fetch_message_max_bytes=500_000,
        auto_commit_enable=False,
        auto_commit_interval_ms=1234,
        auto_offset_reset="largest",
        consumer_timeout_ms=5000,
        rebalance_max_retries=7,
        rebalance_backoff_ms=900,
        queued_max_message_chunks=20,
    )
    assert not [warning for warning in warnings if "unknown" in warning]


def test_complete_0_8_file_is_read() -> None:
    warnings: list[str] = []
    config = ConsumerConfig.from_properties(parse_properties(FILE_OF_0_8), warn=warnings.append)
    assert config == ConsumerConfig(
        group_id="test-consumer-group",
        zookeeper_connect="127.0.0.1:2181",
        zookeeper_session_timeout_ms=7000,
        consumer_id="first",
        client_id="me",
        socket_timeout_ms=31_000,
        socket_receive_buffer_bytes=65_537,
        fetch_message_max_bytes=1_048_577,
        num_consumer_fetchers=2,
        auto_commit_interval_ms=1000,
        queued_max_message_chunks=3,
        rebalance_max_retries=5,
        fetch_min_bytes=2,
        fetch_wait_max_ms=101,
        rebalance_backoff_ms=2001,
        refresh_leader_backoff_ms=201,
        auto_offset_reset="smallest",
        consumer_timeout_ms=10,
        offsets_storage="kafka",
        offsets_channel_backoff_ms=1001,
        offsets_channel_socket_timeout_ms=10_001,
        offsets_commit_max_retries=6,
        dual_commit_enabled=False,
        partition_assignment_strategy="roundrobin",
        exclude_internal_topics=False,
    )
    assert len(warnings) == 1
    assert "zookeeper.sync.time.ms" in warnings[0]


def test_defaults_depend_on_generation() -> None:
    old = ConsumerConfig.from_properties({"groupid": "g", "zk.connect": "z:2181"})
    new = ConsumerConfig.from_properties({"group.id": "g", "zookeeper.connect": "z:2181"})
    assert (old.auto_offset_reset, new.auto_offset_reset) == ("smallest", "largest")
    assert (old.auto_commit_interval_ms, new.auto_commit_interval_ms) == (10_000, 60_000)
    assert (old.queued_max_message_chunks, new.queued_max_message_chunks) == (10, 2)
    assert (old.rebalance_backoff_ms, new.rebalance_backoff_ms) == (2000, 2000)


def test_group_and_zookeeper_are_required() -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        ConsumerConfig.from_properties({"zookeeper.connect": "z:2181"})
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        ConsumerConfig.from_properties({"group.id": "g"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto.offset.reset", "middle"),
        ("offsets.storage", "disk"),
        ("partition.assignment.strategy", "sticky"),
        ("fetch.message.max.bytes", "0"),
        ("auto.commit.enable", "yes"),
        ("consumer.timeout.ms", "-2"),
    ],
)
def test_invalid_value_is_refused_with_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ConsumerConfig.from_properties({"group.id": "g", "zookeeper.connect": "z:2181", key: value})
    assert key in str(raised.value)
    assert value in str(raised.value)


def test_newer_names_of_reset_policy_are_read() -> None:
    for newer, classic in [("earliest", "smallest"), ("latest", "largest"), ("none", "fail")]:
        config = ConsumerConfig.from_properties(
            {"group.id": "g", "zookeeper.connect": "z:2181", "auto.offset.reset": newer}
        )
        assert config.auto_offset_reset == classic


def test_group_with_a_slash_is_refused() -> None:
    with pytest.raises(ConfigError, match="ZooKeeper"):
        ConsumerConfig(group_id="a/b", zookeeper_connect="z:2181")


def test_limit_below_fetch_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fetch\.message\.limit\.bytes"):
        ConsumerConfig(
            group_id="g",
            zookeeper_connect="z:2181",
            fetch_message_max_bytes=2000,
            fetch_message_limit_bytes=1000,
        )


@pytest.mark.parametrize(
    ("storage", "dual", "zookeeper", "brokers"),
    [
        ("zookeeper", None, True, False),
        ("zookeeper", "false", True, False),
        ("zookeeper", "true", True, True),
        ("kafka", None, True, True),
        ("kafka", "true", True, True),
        ("kafka", "false", False, True),
    ],
)
def test_dual_commit_with_either_storage(storage, dual, zookeeper, brokers):
    given = {"group.id": "g", "zookeeper.connect": "z", "offsets.storage": storage}
    if dual is not None:
        given["dual.commit.enabled"] = dual
    config = ConsumerConfig.from_properties(given)
    assert (config.commits_to_zookeeper, config.commits_to_brokers) == (zookeeper, brokers)


def test_assignment_strategy_may_be_import_path():
    given = {"group.id": "g", "zookeeper.connect": "z"}
    path = {"partition.assignment.strategy": "my.module:assign"}
    config = ConsumerConfig.from_properties(given | path)
    assert config.partition_assignment_strategy == "my.module:assign"
    with pytest.raises(ConfigError, match="import path"):
        ConsumerConfig.from_properties(given | {"partition.assignment.strategy": "sticky"})


def test_fetch_config_without_group_warns_about_group_settings() -> None:
    warnings: list[str] = []
    config = FetchConfig.without_group(parse_properties(FILE_OF_0_8), warn=warnings.append)
    assert (config.fetch_message_max_bytes, config.auto_offset_reset) == (1048577, "smallest")
    group_warning, unused_warning = warnings
    assert group_warning.startswith("without a group these have no effect: auto.commit.enable, ")
    assert "client.id" in group_warning
    assert "group.id" not in group_warning
    assert "zookeeper.sync.time.ms" in unused_warning
    with pytest.raises(ConfigError, match=r"fetch\.min\.bytes"):
        FetchConfig.without_group({"fetch.min.bytes": "-1"})
    FetchConfig.without_group({"fetch.mim.bytes": "1"}, warn=warnings.append)
    assert "did you mean fetch.min.bytes?" in warnings[-1]
