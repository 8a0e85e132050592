"""Topics by brokers that are old, refuse, or are no longer the controller."""

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.admin import cluster_settings
from zkbroker.admin.wire_topics import ByBrokers
from zkbroker.client import Cluster, StaticSource
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, UnsupportedVersion
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    AlterConfigsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
)
from zkbroker.protocol.messages.configs import (
    AlteredConfigs,
    ConfigEntry,
    ConfigSource,
    DescribedConfigs,
)
from zkbroker.protocol.messages.topics import CreatedPartitions, CreatedTopic, DeletedTopic


@pytest.fixture
def brokers():
    with FakeCluster(2) as fake:
        fake.create("visits", [0, None])
        yield fake


@pytest.fixture
def cluster(brokers):
    with Cluster(StaticSource(brokers.addresses)) as opened:
        yield opened


@pytest.fixture
def topics(cluster):
    return ByBrokers(cluster)


def creation(code, message=None):
    return CreateTopicsResponse(topics=[CreatedTopic("t", code, message)])


def test_create_sends_counts_or_assignment(brokers, topics):
    asked = []

    def create(request):
        asked.append(request.topics[0])
        return creation(0)

    brokers.faults[ApiKey.CREATE_TOPICS, 0] = create
    brokers.create("t", [0])
    topics.create("t", 2, 1, config={"flush.ms": "5"})
    given = {0: [1, 0]}
    topics.create("t", 2, 1, given)
    assert [(each.num_partitions, each.replication_factor) for each in asked] == [(2, 1), (-1, -1)]
    assert [(each.name, each.value) for each in asked[0].configs] == [("flush.ms", "5")]
    assert {each.partition: each.broker_ids for each in asked[1].assignments} == given


def test_create_raises_message_of_controller(brokers, topics):
    answers = [
        creation(ErrorCode.NOT_CONTROLLER),
        creation(ErrorCode.INVALID_CONFIG, "retention.ms is no number"),
    ]
    brokers.faults[ApiKey.CREATE_TOPICS, 0] = lambda _: answers.pop(0)
    with pytest.raises(ProtocolError, match=r"^retention\.ms is no number$") as caught:
        topics.create("t", 1, 1)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    brokers.faults[ApiKey.CREATE_TOPICS, 0] = lambda _: creation(ErrorCode.NOT_CONTROLLER)
    with pytest.raises(ClientError, match="no broker that answers is the controller"):
        topics.create("t", 1, 1)


def test_refused_growth_without_message_is_described(brokers, topics):
    refused = CreatedPartitions("visits", ErrorCode.INVALID_PARTITIONS)
    brokers.faults[ApiKey.CREATE_PARTITIONS, 0] = lambda _: CreatePartitionsResponse(
        topics=[refused]
    )
    with pytest.raises(ProtocolError, match=r"visits did not grow to 1 partitions: INVALID_PART"):
        topics.grow("visits", 1)


def test_delete_accepts_timeout_of_controller(brokers, topics):
    answers = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    brokers.faults[ApiKey.DELETE_TOPICS, 0] = lambda _: DeleteTopicsResponse(
        topics=[DeletedTopic("visits", answers.pop(0))]
    )
    topics.delete("visits")
    with pytest.raises(ProtocolError, match="visits was not deleted: TOPIC_AUTHORIZATION_FAILED"):
        topics.delete("visits")


def test_old_brokers_are_named(brokers, cluster, topics):
    for key in (ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_CONFIGS):
        del brokers.versions[int(key)]
    with pytest.raises(UnsupportedVersion, match=r"does not support CREATE_PARTITIONS: .*-z"):
        topics.grow("visits", 3)
    (found,) = topics.describe(["visits"])
    assert found.config == {}
    assert cluster_settings.effective_min_isr(cluster, ["visits"]) == {}
    with pytest.raises(ClientError, match=r"asked for num\.partitions"):
        cluster_settings.broker_defaults(cluster, ["num.partitions"])


def test_settings_of_unreachable_brokers(brokers, cluster):
    for broker in brokers.brokers.values():
        broker.stop()
    assert cluster_settings.effective_min_isr(cluster, ["visits"]) == {}
    with pytest.raises(ClientError, match=r"asked for num\.partitions \(.*broker 0"):
        cluster_settings.broker_defaults(cluster, ["num.partitions"])


@pytest.fixture(params=[True, False], ids=["sources", "defaults only"])
def described(request, brokers):
    """Let brokers describe their own and other settings of `visits`, as new and old ones do."""
    if request.param:
        own = {"source": ConfigSource.TOPIC}
        others = [{"source": ConfigSource.DEFAULT}, {"source": ConfigSource.STATIC_BROKER}]
    else:
        brokers.versions[int(ApiKey.DESCRIBE_CONFIGS)] = (0, 0)
        own, others = {}, [{"is_default": True}] * 2
    entries = [
        ConfigEntry("flush.ms", "5", **own),
        ConfigEntry("flush.messages", "6", **own),
        ConfigEntry("retention.ms", "9", **others[0]),
        ConfigEntry("segment.ms", "8", **others[1]),
    ]
    answer = DescribeConfigsResponse(
        resources=[DescribedConfigs(resource_name="visits", entries=entries)]
    )
    for broker in brokers.brokers:
        brokers.faults[ApiKey.DESCRIBE_CONFIGS, broker] = lambda _: answer


@pytest.mark.usefixtures("described")
def test_unnamed_settings_are_sent_again(brokers, topics):
    asked = []

    def alter(request):
        (resource,) = request.resources
        asked.append({each.name: each.value for each in resource.configs})
        return AlterConfigsResponse(resources=[AlteredConfigs(resource_name="visits")])

    for broker in brokers.brokers:
        brokers.faults[ApiKey.ALTER_CONFIGS, broker] = alter
    topics.alter_config("visits", {"retention.ms": "7"}, ["flush.messages"])
    assert asked == [{"flush.ms": "5", "retention.ms": "7"}]


@pytest.mark.usefixtures("described")
def test_own_settings_are_recognized_with_and_without_sources(cluster, topics):
    (found,) = topics.describe()
    assert found.config == {"flush.ms": "5", "flush.messages": "6"}
    assert [(each.leader, each.available) for each in found.partitions] == [
        (0, True),
        (None, False),
    ]
    assert cluster_settings.effective_min_isr(cluster, ["visits"]) == {}
    assert cluster_settings.effective_min_isr(cluster, []) == {}
