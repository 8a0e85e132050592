"""Topics over the protocol; changes through ZooKeeper are tested against a real server."""

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.config.security import NO_SECURITY
from zkbroker.errors import ErrorCode, NetworkError, ProtocolError, UnsupportedVersion
from zkbroker.mirror.topic_admin import TopicAdmin, TopicShape
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    AlterConfigsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DescribeConfigsResponse,
    MetadataResponse,
)
from zkbroker.protocol.messages.configs import (
    AlteredConfigs,
    ConfigEntry,
    ConfigSource,
    DescribedConfigs,
)
from zkbroker.protocol.messages.metadata import MetadataPartition, MetadataTopic
from zkbroker.protocol.messages.topics import CreatedPartitions, CreatedTopic

CONTROLLER = 2
ALL = (
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
)


def answering(answers, keys=ALL):
    """A cluster of which broker 2 is the controller; lists of answers are given one by one."""

    def answer(connection, request):
        if request.api_key is ApiKey.METADATA:
            parts = [MetadataPartition(partition=n, replicas=[1, 2][: n + 1]) for n in range(3)]
            topics = [MetadataTopic(topic="t", partitions=parts)]
            return MetadataResponse(controller_id=CONTROLLER, topics=topics)
        found = answers[request.api_key]
        return found.pop(0) if isinstance(found, list) else found

    return PlayedCluster(
        answer, leaders={"t": (1, 1, 1)}, brokers=(1, CONTROLLER), version=4, versions=keys
    )


def over_protocol(cluster):
    return TopicAdmin(cluster, "", NO_SECURITY)


def changes(cluster):
    return [each for each in cluster.asked if each[1].api_key is not ApiKey.METADATA]


def described(*entries):
    return {
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse(
            resources=[DescribedConfigs(resource_name="t", entries=list(entries))]
        )
    }


def test_shape_has_topic_settings_without_defaults():
    cluster = answering(
        described(
            ConfigEntry("retention.ms", "5", source=ConfigSource.TOPIC),
            ConfigEntry("segment.bytes", "9", source=ConfigSource.STATIC_BROKER),
            ConfigEntry("flush.ms", "7", source=ConfigSource.DEFAULT),
            ConfigEntry("secret", None, source=ConfigSource.TOPIC),
        )
    )
    assert over_protocol(cluster).shape("t") == TopicShape(3, 2, {"retention.ms": "5"})


def test_defaults_are_recognized_without_config_source():
    cluster = answering(
        described(ConfigEntry("a", "1", is_default=True), ConfigEntry("b", "2", is_default=False))
    )
    assert over_protocol(cluster).shape("t").settings == {"b": "2"}


def test_brokers_without_describe_configs_report_no_settings():
    assert over_protocol(answering({}, (ApiKey.METADATA,))).shape("t").settings == {}


def test_topics_are_created_and_grown_at_controller():
    cluster = answering(
        {
            ApiKey.CREATE_TOPICS: CreateTopicsResponse(topics=[CreatedTopic("t")]),
            ApiKey.CREATE_PARTITIONS: CreatePartitionsResponse(topics=[CreatedPartitions("t")]),
            ApiKey.ALTER_CONFIGS: AlterConfigsResponse(resources=[AlteredConfigs()]),
        }
    )
    topics = over_protocol(cluster)
    topics.create("t", TopicShape(3, 2, {"b": "2", "a": "1"}))
    topics.grow("t", 7)
    topics.set_settings("t", {"a": "5"})
    (_, made, _), (_, grown, _), (_, changed, _) = changes(cluster)
    assert [broker for broker, _, _ in changes(cluster)] == [CONTROLLER, CONTROLLER, None]
    (new,) = made.topics
    assert (new.topic, new.num_partitions, new.replication_factor) == ("t", 3, 2)
    assert [(each.name, each.value) for each in new.configs] == [("a", "1"), ("b", "2")]
    assert grown.topics[0].count == 7
    assert [(each.name, each.value) for each in changed.resources[0].configs] == [("a", "5")]


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, False),
        (ErrorCode.INVALID_REPLICATION_FACTOR, True),
    ],
)
def test_existing_topic_is_not_error(code, refused):
    answer = CreateTopicsResponse(topics=[CreatedTopic("t", code)])
    topics = over_protocol(answering({ApiKey.CREATE_TOPICS: answer}))
    if not refused:
        topics.create("t", TopicShape(1, 1, {}))
        return
    with pytest.raises(ProtocolError, match="topic t was not created") as caught:
        topics.create("t", TopicShape(1, 1, {}))
    assert caught.value.code == code


def test_requests_are_retried_after_controller_move_or_broker_loss():
    moved, lost = ErrorCode.NOT_CONTROLLER, NetworkError("lost")
    cluster = answering(
        {
            ApiKey.CREATE_TOPICS: [
                CreateTopicsResponse(topics=[CreatedTopic("t", moved)]),
                lost,
                CreateTopicsResponse(topics=[CreatedTopic("t", ErrorCode.TOPIC_ALREADY_EXISTS)]),
            ],
            ApiKey.CREATE_PARTITIONS: [
                CreatePartitionsResponse(topics=[CreatedPartitions("t", moved)]),
                CreatePartitionsResponse(topics=[CreatedPartitions("t")]),
            ],
            ApiKey.ALTER_CONFIGS: [lost, AlterConfigsResponse(resources=[AlteredConfigs()])],
        }
    )
    topics = over_protocol(cluster)
    topics.create("t", TopicShape(3, 2, {}))
    topics.grow("t", 7)
    topics.set_settings("t", {"a": "5"})
    assert len(changes(cluster)) == 7


def test_unsupported_change_error_names_zookeeper():
    topics = over_protocol(answering({}, (ApiKey.METADATA,)))
    for change in (
        lambda: topics.create("t", TopicShape(1, 1, {})),
        lambda: topics.grow("t", 2),
        lambda: topics.set_settings("t", {}),
    ):
        with pytest.raises(UnsupportedVersion, match=r"zookeeper\.connect"):
            change()
