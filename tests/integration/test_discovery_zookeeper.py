"""A cluster found through a real ZooKeeper: every event of brokers and topics shows by itself."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.fake_broker import FakeBroker, FakeCluster
from tests.support.zookeeper import expire, until
from zkbroker.client import BrokerUnavailable, Cluster, ZooKeeperSource
from zkbroker.errors import UnknownTopicOrPartition
from zkbroker.registry import partitions, paths, topics
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.zookeeper import ZkSession

RUNTIMES = ["threads", "gevent"]


def register(session: ZkSession, broker: FakeBroker) -> None:
    info = BrokerInfo(id=broker.id, host="127.0.0.1", port=broker.port)
    session.create(paths.broker(broker.id), info.to_json(), ephemeral=True, parents=True)


def take_up(session: ZkSession, topic: str, number: int, broker_id: int) -> None:
    state = partitions.PartitionState(broker_id, 0, (broker_id,), 0)
    path = paths.partition_state(topic, number)
    session.create(path, state.to_json(), ephemeral=True, parents=True)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(3) as cluster:
        yield cluster


@pytest.fixture
def open_cluster(chroot: str) -> Iterator[Callable[[str], Cluster]]:
    opened: list[Cluster] = []

    def make(runtime: str) -> Cluster:
        cluster = Cluster(ZooKeeperSource(chroot, session_timeout_ms=30_000), runtime=runtime)
        opened.append(cluster.start())
        return cluster

    yield make
    for cluster in opened:
        cluster.close()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_brokers_that_join_and_leave_are_noticed(runtime, zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    cluster = open_cluster(runtime)
    assert sorted(cluster.brokers()) == [0]
    register(zk, fake.brokers[1])
    until(lambda: sorted(cluster.brokers()) == [0, 1])
    assert cluster.connection(1).port == fake.brokers[1].port
    zk.delete(paths.broker(1))
    until(lambda: sorted(cluster.brokers()) == [0])
    with pytest.raises(BrokerUnavailable):
        cluster.connection(1)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_broker_with_new_address_is_reached_there(runtime, zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    cluster = open_cluster(runtime)
    before = cluster.connection(0)
    fake.restart(0)
    zk.delete(paths.broker(0))
    register(zk, fake.brokers[0])
    until(lambda: cluster.brokers().get(0, (0, "", 0))[2] == fake.brokers[0].port)
    assert cluster.connection(0).port == fake.brokers[0].port != before.port
    assert before.closed


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_new_topic_and_its_leaders_are_noticed(runtime, zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    register(zk, fake.brokers[1])
    cluster = open_cluster(runtime)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.partitions("t")
    topics.create_topic(zk, "t", {0: [0], 1: [1]})
    assert [p.leader for p in cluster.partitions("t")] == [None, None]
    take_up(zk, "t", 0, 0)
    until(lambda: cluster.leader("t", 0) == 0)
    take_up(zk, "t", 1, 1)
    until(lambda: cluster.leader("t", 1) == 1)
    # Another broker takes the partition over.
    zk.delete(paths.partition_state("t", 1))
    take_up(zk, "t", 1, 0)
    until(lambda: cluster.leader("t", 1) == 0)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_added_partitions_are_noticed(runtime, zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    topics.create_topic(zk, "t", {0: [0]})
    take_up(zk, "t", 0, 0)
    cluster = open_cluster(runtime)
    assert len(cluster.partitions("t")) == 1
    topics.add_partitions(zk, "t", {1: [0]})
    until(lambda: len(cluster.known_partitions("t") or ()) == 2)
    take_up(zk, "t", 1, 0)
    until(lambda: cluster.leader("t", 1) == 0)


def test_watcher_is_called_until_removed(zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    cluster = open_cluster("threads")
    calls: list[float] = []
    unwatch = cluster.watch(lambda: calls.append(time.monotonic()))
    register(zk, fake.brokers[1])
    until(lambda: len(calls) > 0)
    unwatch()
    count = len(calls)
    register(zk, fake.brokers[2])
    until(lambda: len(cluster.brokers()) == 3)
    assert len(calls) == count


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_changes_are_noticed_after_lost_session(runtime, zk, fake, open_cluster):
    register(zk, fake.brokers[0])
    cluster = open_cluster(runtime)
    topics.create_topic(zk, "t", {0: [0]})
    assert len(cluster.partitions("t")) == 1
    expire(cluster._source.session)
    register(zk, fake.brokers[1])
    topics.add_partitions(zk, "t", {1: [0]})
    until(lambda: sorted(cluster.brokers()) == [0, 1])
    until(lambda: len(cluster.known_partitions("t") or ()) == 2)


def test_given_session_is_used_and_left_open(zk, fake):
    register(zk, fake.brokers[0])
    with Cluster(ZooKeeperSource(session=zk)) as cluster:
        assert sorted(cluster.brokers()) == [0]
    assert zk.exists(paths.broker(0)) is not None
