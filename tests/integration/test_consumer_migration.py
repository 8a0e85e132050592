"""Offsets in brokers, in both storages, and the documented migration between them."""

from collections.abc import Callable

import pytest

from tests.support.clusters import module_cluster
from tests.support.producing import TestProducer
from tests.support.zookeeper import until
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import Consumer, SimpleConsumer
from zkbroker.registry import group_offsets
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

cluster = module_cluster(2, properties={"offsets.topic.num.partitions": "4"})


class Offsets:
    """The offsets of one group and one partition in each storage."""

    def __init__(self, cluster: LocalCluster, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self._zookeeper = cluster.zookeeper
        self._address = cluster.brokers[0].address

    def zookeeper(self) -> int | None:
        with ZkSession(self._zookeeper) as session:
            found = group_offsets.read_offset(session, self.group, self.topic, 0)
        return None if found is None else found[0]

    def kafka(self) -> int | None:
        key = self.topic, 0
        with SimpleConsumer(*self._address) as simple:
            return simple.fetch_offsets(self.group, [key], storage="kafka")[key]

    def set(self, storage: str, offset: int) -> None:
        with SimpleConsumer(*self._address) as simple:
            simple.commit_offsets(self.group, {(self.topic, 0): offset}, storage=storage)


Step = Callable[..., list[int]]


@pytest.fixture(params=["threads", "gevent"])
def step(cluster: LocalCluster, request: pytest.FixtureRequest) -> Step:
    """Read some messages as a newly configured member, and leave."""

    def read(offsets: Offsets, count: int, **settings: object) -> list[int]:
        config = ConsumerConfig(  # type: ignore[arg-type]
            group_id=offsets.group,
            zookeeper_connect=cluster.zookeeper,
            offsets_channel_backoff_ms=50,
            **{"auto_offset_reset": "smallest", **settings},
        )
        with Consumer.create(config, runtime=str(request.param)) as connector:
            stream = connector.create_message_streams({offsets.topic: 1})[offsets.topic][0]
            until(lambda: (offsets.topic, 0) in connector.owned())
            return [next(stream).offset for _ in range(count)]

    return read


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    name = cluster.create_topic()
    producer = TestProducer(cluster.bootstrap_servers)
    producer.send(name, 0, [b"%d" % i for i in range(20)])
    producer.close()
    return name


def test_group_migrates_to_brokers_and_back(cluster: LocalCluster, topic: str, step: Step) -> None:
    offsets = Offsets(cluster, f"migration-{topic}", topic)
    assert step(offsets, 3) == [0, 1, 2]
    assert (offsets.zookeeper(), offsets.kafka()) == (3, None)
    # 1. offsets.storage=kafka, dual.commit.enabled=true: a rolling bounce.
    assert step(offsets, 2, offsets_storage="kafka", dual_commit_enabled=True) == [3, 4]
    assert (offsets.zookeeper(), offsets.kafka()) == (5, 5)
    # 2. dual.commit.enabled=false: another bounce; ZooKeeper stays behind.
    kafka = {"offsets_storage": "kafka", "dual_commit_enabled": False}
    assert step(offsets, 2, **kafka) == [5, 6]
    assert (offsets.zookeeper(), offsets.kafka()) == (5, 7)
    # Back: dual commit first, from the larger of the two; then ZooKeeper alone.
    assert step(offsets, 2, offsets_storage="kafka", dual_commit_enabled=True) == [7, 8]
    assert (offsets.zookeeper(), offsets.kafka()) == (9, 9)
    assert step(offsets, 2, offsets_storage="zookeeper") == [9, 10]
    assert (offsets.zookeeper(), offsets.kafka()) == (11, 9)


@pytest.mark.parametrize("bounces", [True, False], ids=["documented", "without-dual-commit"])
def test_idle_partition_delivers_messages_after_migration(
    cluster: LocalCluster, topic: str, step: Step, bounces: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With `auto.offset.reset=largest`, a partition without an offset would begin at its end."""
    offsets = Offsets(cluster, f"idle-{topic}", topic)
    assert len(step(offsets, 20)) == 20
    kafka = {"offsets_storage": "kafka", "auto_offset_reset": "largest"}
    if bounces:
        # No message arrives while the group commits to both storages, and no commit is explicit.
        step(offsets, 0, **kafka, dual_commit_enabled=True, auto_commit_enable=False)
        assert offsets.kafka() == 20
    producer = TestProducer(cluster.bootstrap_servers)
    producer.send(topic, 0, [b"later"] * 30)
    producer.close()
    assert step(offsets, 30, **kafka, dual_commit_enabled=False) == list(range(20, 50))
    warnings = [text for text in caplog.messages if "taken from ZooKeeper" in text]
    assert len(warnings) == (0 if bounces else 1)
    assert offsets.kafka() == 50


def test_rollback_with_dual_commit_redelivers_nothing(
    cluster: LocalCluster, topic: str, step: Step
) -> None:
    offsets = Offsets(cluster, f"rollback-{topic}", topic)
    kafka = {"offsets_storage": "kafka", "dual_commit_enabled": False}
    assert step(offsets, 10, **kafka) == list(range(10))
    assert (offsets.zookeeper(), offsets.kafka()) == (None, 10)
    back = {"offsets_storage": "zookeeper", "dual_commit_enabled": True}
    assert step(offsets, 2, **back) == [10, 11]
    assert (offsets.zookeeper(), offsets.kafka()) == (12, 12)
    assert step(offsets, 2, offsets_storage="zookeeper") == [12, 13]


def test_group_mixes_members_before_and_after_first_bounce(
    cluster: LocalCluster, topic: str, step: Step
) -> None:
    # While the bounce rolls, some members commit to ZooKeeper only: the larger offset counts.
    offsets = Offsets(cluster, f"rolling-{topic}", topic)
    dual = {"offsets_storage": "kafka", "dual_commit_enabled": True}
    assert step(offsets, 3, **dual) == [0, 1, 2]
    assert step(offsets, 3) == [3, 4, 5]
    assert (offsets.zookeeper(), offsets.kafka()) == (6, 3)
    assert step(offsets, 1, **dual) == [6]
    assert (offsets.zookeeper(), offsets.kafka()) == (7, 7)


def test_simple_consumer_commits_to_both_storages(cluster: LocalCluster, topic: str) -> None:
    offsets = Offsets(cluster, f"simple-{topic}", topic)
    offsets.set("zookeeper", 4)
    offsets.set("kafka", 9)
    assert (offsets.zookeeper(), offsets.kafka()) == (4, 9)
    with SimpleConsumer(*cluster.brokers[0].address) as simple:
        found = simple.fetch_offsets(offsets.group, [(topic, 0), ("other", 3)])
    assert found == {(topic, 0): 4, ("other", 3): None}


def test_restarted_coordinator_is_found_again(cluster: LocalCluster, topic: str) -> None:
    offsets = Offsets(cluster, f"restart-{topic}", topic)
    config = ConsumerConfig(
        group_id=offsets.group,
        zookeeper_connect=cluster.zookeeper,
        auto_offset_reset="smallest",
        offsets_storage="kafka",
        dual_commit_enabled=False,
        auto_commit_enable=False,
        offsets_channel_backoff_ms=100,
        offsets_commit_max_retries=50,
    )
    with Consumer.create(config) as connector:
        stream = connector.create_message_streams({topic: 1})[topic][0]
        for _ in range(5):
            next(stream)
        connector.commit_offsets()
        for broker in cluster.brokers:
            broker.kill()
            broker.start()
        next(stream)
        connector.commit_offsets()
    assert offsets.kafka() == 6
