"""Clusters found through a static list and through one address, on both runtimes."""

import logging
import threading

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.process import wait_until as until
from zkbroker.client import (
    BrokerUnavailable,
    Cluster,
    NoBrokersAvailable,
    StaticSource,
)
from zkbroker.errors import (
    ClientError,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from zkbroker.protocol import ApiKey

METADATA = ApiKey.METADATA
RUNTIMES = ["threads", "gevent"]


def static(fake: FakeCluster, runtime: str = "threads", **options: int) -> Cluster:
    return Cluster(StaticSource(fake.addresses), runtime=runtime, **options)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_brokers_partitions_and_leaders_are_found_from_a_list(runtime):
    with FakeCluster(3) as fake:
        fake.create("t", [2, 0, None])
        with static(fake, runtime) as cluster:
            assert sorted(cluster.brokers()) == [0, 1, 2]
            assert [p.leader for p in cluster.partitions("t")] == [2, 0, None]
            assert cluster.leader("t", 0) == 2
            assert cluster.leader("t", 2) is None
            assert cluster.leader("other", 0) is None
            assert cluster.topics() == ["t"]


def test_added_partitions_and_new_topics_show_after_a_refresh():
    with FakeCluster(1) as fake, static(fake) as cluster:
        fake.create("t", [0])
        assert len(cluster.partitions("t")) == 1
        fake.create("t", [0, 0, 0])
        cluster.refresh(["t"])
        assert len(cluster.partitions("t")) == 3


def test_a_topic_that_is_new_is_read_alone_and_hides_no_other():
    with FakeCluster(1) as fake, static(fake) as cluster:
        for name in ("t", "u", "v"):
            fake.create(name, [0])
            assert len(cluster.partitions(name)) == 1
        fake.create("t", [0, 0])
        fake.create("x", [None])
        cluster.partitions("x")
        cluster.refresh(["w", "x"])
        assert [cluster.leader(name, 0) for name in ("t", "u", "v", "w")] == [0, 0, 0, None]
        fake.create("w", [0])
        assert len(cluster.partitions("w")) == 1
        asked = [request.topics for key, _, request in fake.brokers[0].requests if key is METADATA]
        assert [each for each in asked if each] == [["t"], ["u"], ["v"], ["x"], ["w", "x"], ["w"]]
        cluster.refresh()
        assert len(cluster.partitions("t")) == 2, "everything again"


def test_everything_is_read_where_the_source_has_changed_meanwhile():
    with FakeCluster(1) as fake:
        source = StaticSource(fake.addresses)
        start, given = source.start, []
        source.start = lambda connector, changed: (given.append(changed), start(connector, changed))
        with Cluster(source) as cluster:
            fake.create("t", [0])
            cluster.partitions("t")
            fake.create("t", [0, 0])
            fake.create("u", [0])
            with cluster._lock:  # the loop waits for it, so that both are there when it begins
                given[0].set()
            cluster.partitions("u")
            assert len(cluster.partitions("t")) == 2


def test_a_reading_that_failed_is_made_of_everything_next(monkeypatch):
    with FakeCluster(1) as fake:
        source = StaticSource(fake.addresses)
        with Cluster(source) as cluster:
            fake.create("t", [0])
            cluster.partitions("t")
            read, failures = source.read, [ClientError("away")]

            def failing(topics):
                if failures:
                    raise failures.pop()
                return read(topics)

            monkeypatch.setattr(source, "read", failing)
            fake.create("t", [0, 0])
            with pytest.raises(ClientError, match="away"):
                cluster.partitions("u")
            assert until(lambda: len(cluster.partitions("t")) == 2)


def test_metadata_is_read_again_by_age():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with static(fake, max_age_ms=20) as cluster:
            changed = threading.Event()
            cluster.partitions("t")
            cluster.watch(changed.set)
            fake.create("t", [0, 0])
            assert changed.wait(10)
            assert len(cluster.partitions("t")) == 2


def test_an_unknown_topic_is_an_error_and_is_not_created_by_asking():
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        with static(fake) as cluster:
            with pytest.raises(UnknownTopicOrPartition, match="nothing"):
                cluster.partitions("nothing")
            assert "nothing" not in fake.leaders


def test_a_topic_without_a_leader_is_an_error_for_who_wants_to_write():
    with FakeCluster(1) as fake, static(fake) as cluster:
        fake.create("t", [None])
        assert cluster.partitions("t")[0].leader is None
        with pytest.raises(LeaderNotAvailable, match="no partition with a leader"):
            cluster.partitions("t", create=True, timeout_s=0.2)


def test_an_unknown_broker_is_a_clear_error():
    with (
        FakeCluster(1) as fake,
        static(fake) as cluster,
        pytest.raises(BrokerUnavailable, match="broker 9 is not registered"),
    ):
        cluster.connection(9)


def test_a_closed_cluster_refuses():
    with FakeCluster(1) as fake:
        cluster = static(fake).start()
        cluster.close()
        cluster.close()
        with pytest.raises(BrokerUnavailable):
            cluster.connection(0)
        with pytest.raises(ClientError):
            cluster.refresh()


def test_an_unforeseen_error_is_told_to_who_waits_and_the_next_reading_works(monkeypatch):
    with FakeCluster() as fake, static(fake) as cluster:
        source = cluster._source
        read, errors = source.read, [LookupError("a defect")]

        def fails_once(topics):
            if errors:
                raise errors.pop()
            return read(topics)

        monkeypatch.setattr(source, "read", fails_once)
        with pytest.raises(ClientError, match="a defect"):
            cluster.refresh()
        cluster.refresh()


def test_a_source_that_cannot_be_read_for_long_is_told_of_once(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "zkbroker.client.cluster")
    with FakeCluster() as fake, static(fake) as cluster:
        read = cluster._source.read
        away = True

        def read_or_not(topics):
            if away:
                raise NoBrokersAvailable("nobody answers")
            return read(topics)

        monkeypatch.setattr(cluster._source, "read", read_or_not)
        for _ in range(3):
            with pytest.raises(NoBrokersAvailable):
                cluster.refresh()
        away = False
        cluster.refresh()
    levels = [record.levelname for record in caplog.records if "metadata reading" in record.message]
    assert levels[0] == "WARNING"
    assert set(levels[1:]) == {"DEBUG"}
