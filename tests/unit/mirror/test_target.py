"""The target: its format, and created, grown and followed topics."""

import logging
from types import SimpleNamespace

import pytest

from tests.support.played_cluster import PlayedCluster
from tests.unit.mirror.test_config import make
from zkbroker.errors import (
    ConfigError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    protocol_error,
)
from zkbroker.mirror.target import NewerTarget
from zkbroker.mirror.topic_admin import TopicShape
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime


class Topics:
    """Topics of one cluster, as an admin sees them."""

    def __init__(self, **shapes: TopicShape):
        self.shapes = dict(shapes)
        self.made: list[TopicShape] = []
        self.error: ProtocolError | None = None
        self.most_replicas = 99

    def shape(self, topic):
        if self.error is not None:
            raise self.error
        return self.shapes[topic]

    def create(self, topic, shape):
        self.made.append(shape)
        if shape.replicas > self.most_replicas:
            raise protocol_error(ErrorCode.INVALID_REPLICATION_FACTOR, "too many")
        self.shapes[topic] = shape

    def grow(self, topic, partitions):
        old = self.shapes[topic]
        if partitions <= old.partitions:
            raise protocol_error(ErrorCode.INVALID_PARTITIONS, f"has {old.partitions} partitions")
        self.shapes[topic] = TopicShape(partitions, old.replicas, old.settings)

    def set_settings(self, topic, settings):
        old = self.shapes[topic]
        self.shapes[topic] = TopicShape(old.partitions, old.replicas, dict(settings))

    def close(self):
        pass


class TargetCluster(PlayedCluster):
    """Brokers whose metadata shows the topics that the admin created."""

    def __init__(self, topics: Topics, version: int, brokers: int, *, numbers: bool = True):
        versions = {ApiKey.PRODUCE: (0, version)}
        if numbers:
            versions[ApiKey.INIT_PRODUCER_ID] = (0, 0)
        super().__init__(
            lambda connection, request: SimpleNamespace(error_code=self.refused),
            brokers=range(brokers),
            version=version,
            versions=versions,
        )
        self.made = topics
        self.known: dict[str, int] = {}
        self.lags_behind = False
        self.refused = ErrorCode.NONE
        self.closed = False

    def known_partitions(self, topic):
        return range(self.known.get(topic, 0))

    def partitions(self, topic, *, create=False):
        if topic not in self.known or not self.lags_behind:
            if topic not in self.made.shapes:
                raise UnknownTopicOrPartition(topic)
            self.known[topic] = self.made.shapes[topic].partitions
        return self.known_partitions(topic)

    def close(self):
        self.closed = True


@pytest.fixture
def connect(monkeypatch):
    def connected(
        topics=None, *, version=7, brokers=3, numbers=True, refused=ErrorCode.NONE, **settings
    ):
        topics = topics or Topics()
        cluster = TargetCluster(topics, version, brokers, numbers=numbers)
        cluster.refused = refused
        monkeypatch.setattr("zkbroker.mirror.target.make_cluster", lambda *args: cluster)
        monkeypatch.setattr("zkbroker.mirror.target.Producer", lambda *args, **keywords: None)
        monkeypatch.setattr("zkbroker.mirror.target.TopicAdmin", lambda *args: topics)
        return NewerTarget(make(**settings), get_runtime("threads"))

    return connected


LIKE = TopicShape(4, 2, {"retention.ms": "5", "min.insync.replicas": "2"})


@pytest.mark.parametrize(
    ("version", "numbers", "settings", "expected"),
    [
        (7, True, {}, (2, True)),
        (3, False, {}, (2, False)),
        (2, False, {}, (1, False)),
        (1, False, {}, (0, False)),
        (7, True, {"target_acks": "1"}, (2, False)),
        (7, True, {"target_message_format": "1"}, (1, False)),
        (7, True, {"target_enable_idempotence": "false"}, (2, False)),
        (7, True, {"target_enable_idempotence": "true", "target_acks": "1"}, (2, True)),
    ],
)
def test_magic_and_idempotence_follow_broker_versions(
    connect, version, numbers, settings, expected, caplog
):
    caplog.set_level("INFO")
    target = connect(version=version, numbers=numbers, **settings)
    assert (target.magic, target.settings.idempotence) == expected
    assert ("a retry may store messages twice" in caplog.text) is not expected[1]


def test_producer_is_not_idempotent_when_producer_ids_are_refused(connect, caplog):
    caplog.set_level("INFO")
    target = connect(refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert target.settings.idempotence is False
    assert "refused a producer id" in caplog.text
    assert connect(refused=ErrorCode.COORDINATOR_NOT_AVAILABLE).settings.idempotence is True


@pytest.mark.parametrize(("version", "why"), [(2, "before 0.11"), (7, "refused a producer id")])
def test_requested_idempotence_is_not_dropped(connect, version, why):
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ConfigError, match=why):
        connect(
            version=version, numbers=version > 2, refused=refused, target_enable_idempotence="true"
        )


def test_oldest_broker_determines_magic(connect, monkeypatch):
    old = SimpleNamespace(
        versions={ApiKey.PRODUCE: (0, 2)}, best_version=lambda key: 2, address="old:9092"
    )
    monkeypatch.setattr(
        TargetCluster, "connection", lambda self, n: old if n == 2 else self.any_connection()
    )
    target = connect()
    assert (target.magic, target.settings.idempotence) == (1, False)


@pytest.mark.parametrize(("brokers", "wanted", "replicas"), [(1, 0, 1), (9, 0, 2), (1, 7, 7)])
def test_missing_topic_is_created_like_source(connect, brokers, wanted, replicas):
    ours = Topics()
    target = connect(ours, brokers=brokers, replication_factor=str(wanted))
    assert target.count_like("east.t", 0, Topics(t=LIKE), "t") == 4
    assert ours.made == [TopicShape(4, replicas, {"retention.ms": "5"})]


def test_excessive_default_replicas_fall_back_to_one(connect):
    ours = Topics()
    ours.most_replicas = 1
    connect(ours).count_like("t", 0, Topics(t=LIKE), "t")
    assert [each.replicas for each in ours.made] == [2, 1]
    asked = Topics()
    asked.most_replicas = 1
    target = connect(asked, replication_factor="2")
    with pytest.raises(ProtocolError, match="too many"):
        target.count_like("t", 0, Topics(t=LIKE), "t")


def test_topic_grows_for_message_of_new_partition(connect):
    ours = Topics(t=TopicShape(2, 1, {}))
    target = connect(ours)
    assert target.count_like("t", 1, Topics(t=LIKE), "t") == 2
    assert target.count_like("t", 2, Topics(t=LIKE), "t") == 4


def test_partition_unknown_to_brokers_is_refused(connect):
    target = connect(Topics(t=TopicShape(2, 1, {})))
    target.cluster.partitions("t")
    target.cluster.lags_behind = True
    with pytest.raises(UnknownTopicOrPartition, match="not there yet"):
        target.count_like("t", 3, Topics(t=LIKE), "t")


def test_topic_already_grown_is_not_error(connect):
    ours = Topics(t=TopicShape(2, 1, {}))
    target = connect(ours)
    target.cluster.partitions("t")

    def refresh(topics):
        target.cluster.lags_behind = False

    ours.shapes["t"] = TopicShape(4, 1, {})
    target.cluster.lags_behind = True
    target.cluster.refresh = refresh
    assert target.count_like("t", 3, Topics(t=LIKE), "t") == 4


def test_offset_syncs_topic_has_one_partition(connect):
    ours = Topics()
    assert connect(ours, brokers=2).have("syncs") == 1
    assert ours.made == [TopicShape(1, 2, {})]


def test_settings_and_counts_are_followed_except_own_settings(connect):
    own = {"min.insync.replicas": "1", "cleanup.policy": "compact"}
    ours = Topics(t=TopicShape(2, 1, own))
    connect(ours).follow("t", Topics(t=LIKE), "t")
    expected = TopicShape(4, 1, {"retention.ms": "5", "min.insync.replicas": "1"})
    assert ours.shapes["t"] == expected


def test_failed_follow_is_logged_once_until_success(connect, caplog):
    ours = Topics(t=TopicShape(4, 1, {}))
    target = connect(ours)
    ours.error = UnsupportedVersion("old broker")

    def warnings():
        return sum(each.levelno == logging.WARNING for each in caplog.records)

    for _ in range(3):
        target.follow("t", Topics(t=LIKE), "t")
    assert warnings() == 1
    ours.error = None
    target.follow("t", Topics(t=LIKE), "t")
    ours.error = UnsupportedVersion("old broker")
    target.follow("t", Topics(t=LIKE), "t")
    assert warnings() == 2


def test_cluster_is_closed_when_producer_creation_fails(connect, monkeypatch):
    target = connect()
    cluster = target.cluster

    def fails(*args, **keywords):
        raise UnsupportedVersion("no")

    monkeypatch.setattr("zkbroker.mirror.target.Producer", fails)
    with pytest.raises(UnsupportedVersion):
        NewerTarget(make(), get_runtime("threads"))
    assert cluster.closed
