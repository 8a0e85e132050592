"""`zkbroker topics -b` and `kafka-topics --bootstrap-server`: the same output as by ZooKeeper."""

import json

import pytest
from click.testing import CliRunner

from tests.support.clusters import module_cluster
from tests.support.process import eventually
from zkbroker.cli.main import cli
from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
)

cluster = module_cluster(brokers=2)


@pytest.fixture
def topics(cluster):
    def run(action, *arguments, zookeeper=False):
        where = ["-z", cluster.zookeeper] if zookeeper else ["-b", cluster.bootstrap_servers]
        return CliRunner().invoke(
            cli, ["topics", action, *arguments, *where], catch_exceptions=False
        )

    return run


def described(topics, *arguments):
    """Return the description, once the broker that was asked has heard of the last change."""
    seen = []

    def same():
        seen[:] = [topics("describe", *arguments, zookeeper=each).output for each in (False, True)]
        return seen[0] == seen[1]

    eventually(same, "the same by brokers and by ZooKeeper")
    return seen[0]


def test_topic_is_created_described_altered_and_deleted(topics):
    created = topics(
        "create", "visits", "--partitions", "2", "--replication-factor", "2",
        "--config", "retention.ms=1000",
    )  # fmt: skip
    assert (created.exit_code, created.output) == (0, 'Created topic "visits".\n')
    assert "visits" in topics("list").output.splitlines()
    assert "visits" in json.loads(topics("list", "--json").output)
    assert described(topics, "visits").startswith(
        "Topic:visits\tPartitionCount:2\tReplicationFactor:2\tConfigs:retention.ms=1000\n"
        "\tTopic: visits\tPartition: 0\tLeader: "
    )
    altered = topics(
        "alter", "visits", "--partitions", "3", "--config", "flush.ms=9",
        "--delete-config", "retention.ms",
    )  # fmt: skip
    assert 'Updated config for topic "visits".\nTopic visits has 3 partitions now.' in (
        altered.output
    )
    assert json.loads(described(topics, "visits", "--json"))[0]["config"] == {"flush.ms": "9"}
    assert topics("delete", "visits").output == "Topic visits is marked for deletion.\n"
    eventually(lambda: "visits" not in topics("list").output.splitlines())


def test_topic_uses_broker_defaults(topics):
    topics("create", "plain")
    assert "PartitionCount:1\tReplicationFactor:1\t" in topics("describe", "plain").output
    assert topics("create", "plain", "--if-not-exists").output == ""
    with pytest.raises(ProtocolError, match="already exists") as caught:
        topics("create", "plain")
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_given_assignment_is_used(topics, cluster):
    first, second = (each.id for each in cluster.brokers)
    topics("create", "placed", "--replica-assignment", f"{first},{second}")
    topics(
        "alter", "placed", "--partitions", "3",
        "--replica-assignment", f"{first},{second},{second}",
    )  # fmt: skip
    (placed,) = json.loads(described(topics, "placed", "--json"))
    assert [each["replicas"] for each in placed["partitions"]] == [
        [first],
        [second],
        [second],
    ]


def test_partitions_below_min_isr_are_listed(topics):
    topics(
        "create", "strict", "--partitions", "1", "--replication-factor", "1",
        "--config", "min.insync.replicas=2",
    )  # fmt: skip
    shown = described(topics, "--under-min-isr-partitions")
    assert shown.count("\n") == 1
    assert "Topic: strict\t" in shown


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["create", "bad/name"], ProtocolError, "bad/name"),
        (["create", "t", "--config", "retention.ms=long"], ProtocolError, r"retention\.ms"),
        (["create", "t", "--replication-factor", "9"], ProtocolError, "Replication factor: 9"),
        (["describe", "nowhere"], UnknownTopicOrPartition, "there is no topic nowhere"),
        (["alter", "nowhere", "--partitions", "2"], UnknownTopicOrPartition, "nowhere"),
        (["alter", "nowhere", "--config", "flush.ms=1"], UnknownTopicOrPartition, "nowhere"),
        (["delete", "nowhere"], UnknownTopicOrPartition, "there is no topic nowhere"),
    ],
)
def test_invalid_topic_commands_are_refused(topics, arguments, error, text):
    with pytest.raises(error, match=text):
        topics(*arguments)


def test_disable_rack_aware_needs_zookeeper(topics):
    refused = topics("create", "t", "--disable-rack-aware")
    assert refused.exit_code == 2
    assert "--disable-rack-aware needs -z" in refused.output


def test_delete_config_needs_existing_setting(topics):
    topics("create", "bare")
    with pytest.raises(ConfigError, match="set are: none"):
        topics("alter", "bare", "--delete-config", "flush.ms")


def test_kafka_topics_by_brokers(cluster):
    def tool(*arguments):
        where = ["--bootstrap-server", cluster.bootstrap_servers]
        return CliRunner().invoke(
            cli, ["kafka-topics.sh", *where, *arguments], catch_exceptions=False
        )

    named = ("--topic", "genuine")
    assert tool("--create", *named).exit_code == 0
    assert "genuine" in tool("--list").output.splitlines()
    assert tool("--describe", *named).output.startswith("Topic:genuine\tPartitionCount:1\t")
    assert tool("--alter", *named, "--partitions", "2").exit_code == 0
    eventually(lambda: "PartitionCount:2\t" in tool("--describe", *named).output)
    assert tool("--delete", *named).exit_code == 0
    eventually(lambda: "genuine" not in tool("--list").output.splitlines())


def test_unreachable_brokers_are_reported():
    with pytest.raises(ClientError):
        CliRunner().invoke(cli, ["topics", "list", "-b", "127.0.0.1:1"], catch_exceptions=False)
