"""Topics created, grown and configured through ZooKeeper."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.admin import topics as admin
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError, UnknownTopicOrPartition
from zkbroker.registry import paths, topics
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partitions import PartitionState


@pytest.fixture
def session() -> Any:
    session = InstantSession()
    for number in (1, 2):
        info = BrokerInfo(id=number, host="h", port=9092)
        session.create(paths.broker(number), info.to_json(), ephemeral=True, parents=True)
    return session


def test_topic_is_created_described_and_grown(session: Any) -> None:
    admin.create_topic(session, "t", partitions=2, config={"retention.ms": "1000"})
    state = PartitionState(1, 0, (1,), 0).to_json()
    session.create(paths.partition_state("t", 0), state, ephemeral=True, parents=True)
    (found,) = admin.describe(session, ["t"])
    assert (found.config, len(found.partitions)) == ({"retention.ms": "1000"}, 2)
    assert (found.partitions[0].leader, found.partitions[0].available) == (1, True)
    assert (found.partitions[1].leader, found.partitions[1].available) == (None, False)
    assert found.partitions[1].under_replicated
    admin.add_partitions(session, "t", 3)
    assert len(admin.describe(session)[0].partitions) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_invalid_counts_are_refused_and_nothing_written(
    session: Any, arguments: Any, code: ErrorCode
) -> None:
    with pytest.raises(ProtocolError) as refused:
        admin.create_topic(session, "t", **arguments)
    assert refused.value.code is code
    assert topics.list_topics(session) == []


def test_unknown_setting_prevents_creation(session: Any) -> None:
    with pytest.raises(ConfigError):
        admin.create_topic(session, "t", config={"retention.ns": "1"})
    assert topics.list_topics(session) == []


def test_existing_topic_is_not_created_again(session: Any) -> None:
    admin.create_topic(session, "t")
    with pytest.raises(ProtocolError) as refused:
        admin.create_topic(session, "t")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_settings_change_all_or_none(session: Any) -> None:
    admin.create_topic(session, "t", config={"retention.ms": "1", "segment.bytes": "1000000"})
    changed = admin.alter_config(session, "t", add={"retention.ms": "2"}, delete=["segment.bytes"])
    assert changed == {"retention.ms": "2"} == topics.topic_config(session, "t")
    with pytest.raises(ConfigError, match=r"set are: retention\.ms"):
        admin.alter_config(session, "t", add={"retention.ms": "3"}, delete=["segment.bytes"])
    with pytest.raises(ConfigError):
        admin.alter_config(session, "t", add={"retention.ms": "soon"})
    assert topics.topic_config(session, "t") == {"retention.ms": "2"}


def test_description_shows_mark_for_deletion(session: Any) -> None:
    admin.create_topic(session, "t")
    admin.delete_topic(session, "t")
    (found,) = admin.describe(session)
    assert found.marked_for_deletion
    assert admin.describe_lines(found)[0].endswith("\tMarkedForDeletion:true")


@pytest.mark.parametrize("act", [admin.delete_topic, admin.alter_config])
def test_missing_topic_is_named(session: Any, act: Any) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic gone"):
        act(session, "gone")


def test_description_has_genuine_format() -> None:
    found = admin.TopicDescription(
        "t", {"a": "1", "b": "2"}, (admin.PartitionDescription(0, None, (1, 2), (2,)),)
    )
    assert admin.describe_lines(found) == [
        "Topic:t\tPartitionCount:1\tReplicationFactor:2\tConfigs:a=1,b=2",
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: 2",
    ]


def test_assignment_is_parsed_in_genuine_form() -> None:
    assert admin.parse_assignment("1:2,2:3") == {0: [1, 2], 1: [2, 3]}
    for text, reason in (("1;2", "give broker ids"), ("1:2,3:3", "partition 1 names a broker")):
        with pytest.raises(ConfigError, match=reason):
            admin.parse_assignment(text)
