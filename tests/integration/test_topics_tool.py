"""`zkbroker topics` on a real ZooKeeper, and the form of its output."""

import json

import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli
from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
)
from zkbroker.registry import paths
from zkbroker.registry.broker_registration import register_broker
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import LeaderAndIsr
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import assignment, list_topics, topic_config, topics_to_delete


@pytest.fixture
def topics(zk, chroot):
    register_broker(zk, BrokerInfo(1, "127.0.0.1", 9092))

    def run(*arguments):
        return CliRunner().invoke(
            cli, ["topics", *arguments], env={"ZKBROKER_ZOOKEEPER": chroot}, catch_exceptions=False
        )

    return run


ONE = ("--partitions", "1", "--replication-factor", "1")


def test_create_list_and_describe_match_genuine_output(topics, zk):
    created = topics(
        "create", "visits", "--partitions", "2", *ONE[2:], "--config", "retention.ms=1000"
    )
    assert created.output == 'Created topic "visits".\n'
    assert topics("list").output == "visits\n"
    state = PartitionState(1, 0, (1,), 1).to_json()
    zk.create(paths.partition_state("visits", 0), state, parents=True)
    assert topics("describe", "visits").output == (
        "Topic:visits\tPartitionCount:2\tReplicationFactor:1\tConfigs:retention.ms=1000\n"
        "\tTopic: visits\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
        "\tTopic: visits\tPartition: 1\tLeader: none\tReplicas: 1\tIsr: \n"
    )
    assert topics("describe", "--unavailable-partitions").output == (
        "\tTopic: visits\tPartition: 1\tLeader: none\tReplicas: 1\tIsr: \n"
    )
    (described,) = json.loads(topics("describe", "--json").output)
    assert described["partitions"][0]["leader"] == 1


def test_topic_is_created_with_given_assignment(topics, zk):
    created = topics("create", "visits", "--replica-assignment", "1,7,1")
    assert "no broker 7 is registered; registered are 1" in created.stderr
    assert {p: list(r) for p, r in assignment(zk, "visits").items()} == {0: [1], 1: [7], 2: [1]}


def test_partitions_and_settings_are_altered(topics, zk):
    topics("create", "visits", *ONE, "--config", "flush.ms=5")
    topics(
        "alter", "visits", "--partitions", "3", "--config", "retention.ms=9",
        "--delete-config", "flush.ms",
    )  # fmt: skip
    assert len(assignment(zk, "visits")) == 3
    assert topic_config(zk, "visits") == {"retention.ms": "9"}
    with pytest.raises(ProtocolError) as caught:
        topics("alter", "visits", "--partitions", "2")
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS
    with pytest.raises(ConfigError, match=r"set are: retention\.ms"):
        topics("alter", "visits", "--delete-config", "flush.ms")


def test_topic_is_marked_for_deletion(topics, zk):
    topics("create", "clicks", *ONE)
    topics("create", "visits", *ONE)
    topics("delete", "visits")
    assert topics_to_delete(zk) == ["visits"]
    assert topics("list").output == "clicks\nvisits - marked for deletion\n"
    assert json.loads(topics("list", "--json").output) == ["clicks", "visits"]
    assert "MarkedForDeletion:true" in topics("describe", "visits").output


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["create", "bad/name", *ONE], ProtocolError, "bad/name"),
        (["create", "t", *ONE, "--config", "retention.ms=long"], ConfigError, "retention.ms"),
        (["create", "t", *ONE, "--config", "retention=1"], ConfigError, "retention"),
        (
            ["create", "t", *ONE[:2], "--replication-factor", "2"],
            ProtocolError,
            "Replication factor: 2",
        ),
        (["create", "t", "--replica-assignment", "one"], ConfigError, "broker ids"),
        (["create", "t", "--replica-assignment", "1:1"], ConfigError, "twice"),
        (["describe", "nowhere"], UnknownTopicOrPartition, "nowhere"),
        (["alter", "nowhere", "--partitions", "2"], UnknownTopicOrPartition, "nowhere"),
        (["delete", "nowhere"], UnknownTopicOrPartition, "nowhere"),
    ],
)
def test_invalid_topic_commands_are_refused(topics, arguments, error, text):
    with pytest.raises(error, match=text):
        topics(*arguments)


def test_existing_topic_is_refused(topics):
    topics("create", "visits", *ONE)
    with pytest.raises(ProtocolError) as caught:
        topics("create", "visits", *ONE)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert topics("create", "visits", "--if-not-exists").exit_code == 0


def test_unknown_broker_default_must_be_given(topics, zk):
    with pytest.raises(
        ClientError, match=r"default\.replication\.factor.*: give --partitions and --replication-f"
    ):
        topics("create", "visits")
    assert list_topics(zk) == []


def test_assignment_excludes_counts(topics):
    ran = topics("create", "visits", "--replica-assignment", "1", "--partitions", "2")
    assert ran.exit_code == 2
    assert "leave out --partitions and --replication-factor" in ran.output


def test_missing_brokers_of_leaderless_partition_are_named(topics, zk):
    topics("create", "visits", "--replica-assignment", "7:8")
    zk.create(paths.partition("visits", 0), LeaderAndIsr(7, 3, (7,), 1).to_json(), parents=True)
    line = "\tTopic: visits\tPartition: 0\tLeader: none\tReplicas: 7,8\tIsr: 7\tMissing: 7\n"
    assert topics("describe", "--unavailable-partitions").output == line
    (described,) = json.loads(topics("describe", "--json").output)
    assert described["partitions"][0]["missing"] == [7]
