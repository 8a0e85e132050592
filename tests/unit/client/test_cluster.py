"""Clusters with a static list of brokers, on both runtimes."""

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, static_cluster
from zkbroker.client import BrokerUnavailable, Cluster, StaticSource
from zkbroker.errors import ClientError, LeaderNotAvailable


@RUNTIMES
def test_static_list_finds_brokers_partitions_and_leaders(runtime):
    with FakeCluster(3) as fake:
        fake.create("t", [2, 0, None])
        with static_cluster(fake, runtime) as cluster:
            assert sorted(cluster.brokers()) == [0, 1, 2]
            assert [p.leader for p in cluster.partitions("t")] == [2, 0, None]
            assert cluster.leader("t", 0) == 2
            assert cluster.leader("t", 2) is None
            assert cluster.leader("other", 0) is None
            assert cluster.topics() == ["t"]


def test_start_that_fails_leaves_no_connection_open():
    class Unreadable(StaticSource):
        def read(self, topics):
            super().read(topics)
            self.connection = self._brokers.ask(lambda connection, _: connection, self._known)
            raise ClientError("unreadable")

    with FakeCluster(1) as fake:
        source = Unreadable(fake.addresses)
        with pytest.raises(ClientError, match="unreadable"):
            Cluster(source).start()
        assert source.connection.closed


def test_refresh_shows_added_partitions():
    with FakeCluster(1) as fake, static_cluster(fake) as cluster:
        fake.create("t", [0])
        assert len(cluster.partitions("t")) == 1
        fake.create("t", [0, 0, 0])
        cluster.refresh(["t"])
        assert len(cluster.partitions("t")) == 3


def test_leaderless_topic_raises_for_producers():
    with FakeCluster(1) as fake, static_cluster(fake) as cluster:
        fake.create("t", [None])
        assert cluster.partitions("t")[0].leader is None
        with pytest.raises(
            LeaderNotAvailable, match="t-0 has no leader: its replicas are on broker 0"
        ):
            cluster.partitions("t", create=True, timeout_s=0.2)


def test_error_of_unknown_partition_says_it_does_not_exist():
    with FakeCluster(1) as fake, static_cluster(fake) as cluster:
        fake.create("t", [0])
        cluster.partitions("t")
        assert str(cluster.no_leader("t", 9)) == "t-9 does not exist: the topic has 1 partition(s)"
        assert str(cluster.no_leader("u", 0)) == "u-0 does not exist: there is no such topic"


def test_connection_to_unregistered_broker_is_refused():
    with (
        FakeCluster(1) as fake,
        static_cluster(fake) as cluster,
        pytest.raises(BrokerUnavailable, match="broker 9 is not registered"),
    ):
        cluster.connection(9)


def test_closed_cluster_refuses_connections_and_refresh():
    with FakeCluster(1) as fake:
        cluster = static_cluster(fake).start()
        cluster.close()
        cluster.close()
        with pytest.raises(BrokerUnavailable):
            cluster.connection(0)
        with pytest.raises(ClientError):
            cluster.refresh()
