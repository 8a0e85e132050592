"""A consumer whose connection to ZooKeeper breaks, or whose session ends; and mixed groups."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clusters import TestCluster
from tests.support.members import IndependentMember
from tests.support.producing import TestProducer
from tests.support.zookeeper import expire
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import Consumer, ConsumerConnector, ConsumerTimeout, KafkaStream
from zkbroker.registry import group_offsets, groups
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    # Brokers outlive the ZooKeeper faults of these tests.
    with TestCluster(1) as running:
        yield running


@pytest.fixture(params=["threads", "gevent"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def consumer_of(
    cluster: LocalCluster, topic: str, runtime: str, group: str, **settings: Any
) -> tuple[ConsumerConnector, KafkaStream]:
    chosen = {
        "zookeeper_session_timeout_ms": 30_000,
        "auto_offset_reset": "smallest",
        "consumer_timeout_ms": 120_000,
        "rebalance_backoff_ms": 200,
        **settings,
    }
    config = ConsumerConfig(group_id=group, zookeeper_connect=cluster.zookeeper, **chosen)
    connector = Consumer.create(config, runtime=runtime)
    return connector, connector.create_message_streams({topic: 1})[topic][0]


def topic_with(cluster: LocalCluster, *counts: int) -> str:
    topic = cluster.create_topic(partitions=len(counts))
    producer = TestProducer(cluster.bootstrap_servers)
    for partition, count in enumerate(counts):
        # Batches of ten, so that much of it still waits in queues when something happens.
        for start in range(0, count, 10):
            producer.send(topic, partition, [b"x"] * min(10, count - start))
    producer.close()
    return topic


def test_consumer_resumes_at_last_commit_after_lost_session(
    cluster: LocalCluster, runtime: str
) -> None:
    topic = topic_with(cluster, 100)
    connector, stream = consumer_of(
        cluster, topic, runtime, f"lost-{runtime}", auto_commit_enable=False
    )
    with connector:
        assert [next(stream).offset for _ in range(20)] == list(range(20))
        connector.commit_offsets()
        assert [next(stream).offset for _ in range(5)] == list(range(20, 25))
        rebalancer = connector._rebalancer
        assert rebalancer is not None
        expire(connector._session)
        while rebalancer.rebalances < 2 or not connector.owned():
            connector._runtime.sleep(0.01)
        # What waited in the queue is gone with the ownership; the successor, here we ourselves,
        # begins at the commit.
        assert [next(stream).offset for _ in range(80)] == list(range(20, 100))
        connector.commit_offsets()
        with ZkSession(cluster.zookeeper) as session:
            assert groups.members(session, f"lost-{runtime}") == [connector.consumer_id]
            assert (
                group_offsets.read_offsets(session, f"lost-{runtime}", [(topic, 0)])[topic, 0][0]
                == 100
            )


def test_no_message_is_delivered_while_zookeeper_is_unreachable(
    cluster: LocalCluster, runtime: str
) -> None:
    topic = topic_with(cluster, 2000)
    connector, stream = consumer_of(
        cluster,
        topic,
        runtime,
        f"suspended-{runtime}",
        zookeeper_session_timeout_ms=60_000,
        consumer_timeout_ms=200,
    )
    with connector:
        while True:
            try:
                assert next(stream).offset == 0
                break
            except ConsumerTimeout:
                continue
        cluster.embedded_zookeeper.kill()
        offsets = []
        with pytest.raises(ConsumerTimeout):
            # It may continue until it notices the lost connection; then it stops.
            while True:
                offsets.append(next(stream).offset)
                connector._runtime.sleep(0.005)
        assert len(offsets) < 1999
        assert connector.owned() == {(topic, 0)}
        cluster.embedded_zookeeper.restart()
        while len(offsets) < 1999:
            try:
                offsets.append(next(stream).offset)
            except ConsumerTimeout:
                continue
        # The session continued, so no message was redelivered.
        assert offsets == list(range(1, 2000))
        assert connector._rebalancer is not None
        assert connector._rebalancer.rebalances == 1


def test_group_includes_member_with_unconditional_commits(
    cluster: LocalCluster, runtime: str
) -> None:
    topic = topic_with(cluster, 10, 10, 10, 10)
    group = f"mixed-{runtime}"
    other = IndependentMember(cluster.zookeeper, group, {topic: 1})
    wait = get_runtime(runtime).sleep
    with ZkSession(cluster.zookeeper, runtime=runtime) as session:
        connector, stream = consumer_of(cluster, topic, runtime, group)
        with connector:
            every = {(topic, p) for p in range(4)}
            # A member learns of its ownership only after the owner's znode was created.
            while (
                len(mine := connector.owned()) != 2
                or (theirs := every - mine) != set(other.owned)
                or len(groups.owners(session, group, topic)) != 4
            ):
                wait(0.01)
            first = sorted(
                (m.topic, m.partition, m.offset) for m in (next(stream) for _ in range(20))
            )
            assert first == [(*key, offset) for key in sorted(mine) for offset in range(10)]
            for key in theirs:
                group_offsets.commit_offset(session, group, *key, 7)
            other.close()
            rest = sorted(
                (m.topic, m.partition, m.offset) for m in (next(stream) for _ in range(6))
            )
            assert rest == [(*key, offset) for key in sorted(theirs) for offset in (7, 8, 9)]
            connector.commit_offsets()
            committed = group_offsets.read_offsets(session, group, [(topic, p) for p in range(4)])
            assert {offset for offset, _ in committed.values()} == {10}
    assert other.problem is None
