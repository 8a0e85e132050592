"""Clusters found through a static list and through one address, on both runtimes."""

import logging
import threading

import pytest

from tests.support.fake_broker import CLOSE, FakeCluster
from tests.support.process import wait_until
from zkbroker.discovery import (
    BrokerUnavailable,
    Cluster,
    NoBrokersAvailable,
    SingleAddressSource,
    StaticSource,
)
from zkbroker.errors import (
    ClientError,
    LeaderNotAvailable,
    NotLeaderForPartition,
    UnknownTopicOrPartition,
)
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime

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


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_connection_is_shared_by_lane_and_replaced_when_broken(runtime):
    with FakeCluster(1) as fake, static(fake, runtime) as cluster:
        first = cluster.connection(0)
        assert cluster.connection(0) is first
        polls = cluster.connection(0, "fetch")
        assert polls is not first
        first.close()
        assert cluster.connection(0) is not first
        assert cluster.connection(0, "fetch") is polls


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_many_tasks_that_ask_at_once_share_one_connection(runtime):
    tasks = get_runtime(runtime)
    with FakeCluster(1) as fake, static(fake, runtime) as cluster:
        found = []
        running = [
            tasks.spawn(lambda: found.append(cluster.connection(0)), name="ask") for _ in range(8)
        ]
        assert all(task.join(10) for task in running)
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


def test_a_broker_that_comes_back_elsewhere_is_reached_after_a_refresh():
    with FakeCluster(2) as fake, static(fake) as cluster:
        old = cluster.connection(1)
        fake.restart(1)
        cluster.refresh()
        new = cluster.connection(1)
        assert new.port == fake.brokers[1].port != old.port
        assert old.closed


def test_added_partitions_and_new_topics_show_after_a_refresh():
    with FakeCluster(1) as fake, static(fake) as cluster:
        fake.create("t", [0])
        assert len(cluster.partitions("t")) == 1
        fake.create("t", [0, 0, 0])
        cluster.refresh(["t"])
        assert len(cluster.partitions("t")) == 3


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


def test_a_topic_is_not_created_by_asking_a_broker_whose_requests_always_create():
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, 1)
        fake.create("t", [0])
        with static(fake) as cluster:
            with pytest.raises(UnknownTopicOrPartition):
                cluster.partitions("nothing")
            assert "nothing" not in fake.leaders
            assert len(cluster.partitions("t")) == 1


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_topic_is_created_on_request_with_every_version(version):
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, version)
        with static(fake) as cluster:
            assert len(cluster.partitions("new", create=True)) == 2


def test_a_topic_without_a_leader_is_an_error_for_who_wants_to_write():
    with FakeCluster(1) as fake, static(fake) as cluster:
        fake.create("t", [None])
        assert cluster.partitions("t")[0].leader is None
        with pytest.raises(LeaderNotAvailable, match="no partition with a leader"):
            cluster.partitions("t", create=True, timeout_s=0.2)


def test_no_broker_at_any_address_is_a_clear_error():
    with FakeCluster(1) as fake:
        address = fake.addresses
    with pytest.raises(NoBrokersAvailable, match="correct the addresses"):
        Cluster(StaticSource(address), connect_timeout_ms=500).start()


def test_an_unknown_broker_is_a_clear_error():
    with (
        FakeCluster(1) as fake,
        static(fake) as cluster,
        pytest.raises(BrokerUnavailable, match="broker 9 is not registered"),
    ):
        cluster.connection(9)


def test_the_rest_of_the_cluster_is_found_when_the_listed_broker_is_gone():
    with FakeCluster(2) as fake:
        fake.create("t", [1])
        with Cluster(StaticSource(fake.brokers[0].address)) as cluster:
            assert cluster.leader("t", 0) is None
            fake.brokers.pop(0).stop()
            assert cluster.partitions("t")[0].leader == 1
            cluster.refresh()
            assert sorted(cluster.brokers()) == [1]


def test_knowledge_is_kept_while_no_broker_answers_and_renewed_after():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with static(fake) as cluster:
            cluster.partitions("t")
            fake.faults[ApiKey.METADATA, 0] = lambda request: CLOSE
            with pytest.raises(Exception, match=r"closed|lost|connection|refused"):
                cluster.refresh(["t"])
            assert cluster.leader("t", 0) == 0
            fake.create("t", [0, 0])
            fake.faults.clear()
            cluster.refresh(["t"])
            assert len(cluster.partitions("t")) == 2


def test_old_addresses_with_ids_are_understood():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with Cluster(StaticSource([f"0:{fake.brokers[0].address}"])) as cluster:
            assert len(cluster.partitions("t")) == 1


def test_a_text_that_is_no_address_is_refused():
    for text in ("", "host", "host:port", ":9092"):
        with pytest.raises(ClientError):
            StaticSource(text)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_behind_one_address_only_hosted_partitions_have_a_leader(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1, 0])
        fake.create("elsewhere", [1])
        source = SingleAddressSource(fake.brokers[0].address)
        with Cluster(source, runtime=runtime) as cluster:
            here = [p.partition for p in cluster.partitions("t") if p.leader is not None]
            assert here == [0, 2]
            with pytest.raises(NotLeaderForPartition, match="forward nothing"):
                cluster.partitions("elsewhere")
            one = cluster.any_connection()
            assert cluster.connection(-1, "fetch") is one
            assert len(fake.brokers[1].requests) == 0


def test_behind_one_address_another_broker_may_answer_after_the_connection_broke():
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        source = SingleAddressSource(fake.brokers[0].address)
        with Cluster(source) as cluster:
            assert [p.leader is not None for p in cluster.partitions("t")] == [True, False]
            port = fake.brokers[0].port
            fake.brokers[0].stop()
            # The balancer now leads to the other broker.
            stand_in = type(fake.brokers[1])(fake, 1, port)
            changed = threading.Event()
            cluster.watch(changed.set)

            def changed_when_asked_anew():
                # the old connection is the answer until its end has been noticed
                cluster.any_connection()
                return changed.wait(0.01)

            assert wait_until(changed_when_asked_anew)
            assert [p.leader is not None for p in cluster.partitions("t")] == [False, True]
            stand_in.stop()


def test_no_broker_behind_the_address_is_a_clear_error():
    with FakeCluster(1) as fake:
        address = fake.addresses
    with pytest.raises(NoBrokersAvailable, match=r"broker\.address"):
        Cluster(SingleAddressSource(address), connect_timeout_ms=500).start()


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
    caplog.set_level(logging.DEBUG, "zkbroker.discovery.cluster")
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
    levels = [record.levelname for record in caplog.records if "unreadable" in record.message]
    assert levels[0] == "WARNING"
    assert set(levels[1:]) == {"DEBUG"}
