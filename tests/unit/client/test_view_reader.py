"""The owner loop that reads a source: partial, full and failed readings."""

import logging
import threading

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.process import wait_until as until
from tests.support.producers import static_cluster
from zkbroker.client import Cluster, NoBrokersAvailable, StaticSource
from zkbroker.client.view_reader import ViewReader
from zkbroker.errors import ClientError
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime

METADATA = ApiKey.METADATA


def fail_readings(monkeypatch, source, *errors):
    """Let the next readings of a source fail, each with its error."""
    read, left = source.read, list(errors)

    def failing(topics):
        if left:
            raise left.pop(0)
        return read(topics)

    monkeypatch.setattr(source, "read", failing)


def test_new_topic_is_read_alone_and_others_are_kept():
    with FakeCluster(1) as fake, static_cluster(fake) as cluster:
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


def test_source_change_reads_all_topics():
    with FakeCluster(1) as fake:
        source = StaticSource(fake.addresses)
        start, given = source.start, []
        source.start = lambda connector, changed: (given.append(changed), start(connector, changed))
        with Cluster(source) as cluster:
            fake.create("t", [0])
            cluster.partitions("t")
            fake.create("t", [0, 0])
            fake.create("u", [0])
            # The owner loop waits for the lock, so both topics exist when it reads.
            with cluster._reader._lock:
                given[0].set()
            cluster.partitions("u")
            assert len(cluster.partitions("t")) == 2


def test_source_change_waits_for_a_reading_that_begins():
    """The reading would take back that everything is to be read."""

    class Seen(ViewReader):
        def __setattr__(self, name, value):
            if name == "_all_again":
                noted.append((value, lock.held))
            super().__setattr__(name, value)

    class Lock:
        held = False

        def __enter__(self):
            self.held = True

        def __exit__(self, *error):
            self.held = False

    noted, lock = [], Lock()
    reader = Seen(StaticSource("h:1"), get_runtime("threads"), None)
    reader._lock = lock
    noted.clear()
    reader._source_changed()
    assert noted == [(True, True)]


def test_failed_reading_is_followed_by_full_reading(monkeypatch):
    with FakeCluster(1) as fake:
        source = StaticSource(fake.addresses)
        with Cluster(source) as cluster:
            fake.create("t", [0])
            cluster.partitions("t")
            fail_readings(monkeypatch, source, ClientError("away"))
            fake.create("t", [0, 0])
            with pytest.raises(ClientError, match="away"):
                cluster.partitions("u")
            assert until(lambda: len(cluster.partitions("t")) == 2)


def test_topic_that_is_asked_for_while_it_is_found_missing_stays_known(monkeypatch):
    with FakeCluster(1) as fake:
        source = StaticSource(fake.addresses)
        with Cluster(source) as cluster:
            read, second = source.read, []

            def read_and_ask_again(topics):
                view = read(topics)
                if not second:
                    fake.create("t", [0])
                    second.append(threading.Thread(target=cluster.refresh, args=(["t"],)))
                    second[0].start()
                    assert until(lambda: len(cluster._reader._waiters) == 2)
                return view

            monkeypatch.setattr(source, "read", read_and_ask_again)
            cluster.refresh(["t"])
            second[0].join()
            assert cluster.leader("t", 0) == 0
            cluster.refresh()
            assert cluster.leader("t", 0) == 0, "every known topic is read again"


def test_metadata_is_read_again_after_max_age():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with static_cluster(fake, max_age_ms=20) as cluster:
            changed = threading.Event()
            cluster.partitions("t")
            cluster.watch(changed.set)
            fake.create("t", [0, 0])
            assert changed.wait(10)
            assert len(cluster.partitions("t")) == 2


def test_watcher_is_called_until_it_is_removed():
    with FakeCluster() as fake, static_cluster(fake) as cluster:
        called, ends = [], []

        def once():
            called.append("once")
            ends[0]()

        ends.append(cluster.watch(once))
        end = cluster.watch(lambda: called.append("always"))
        for name in ("t", "u"):
            fake.create(name, [0])
            cluster.refresh([name])
        assert called == ["once", "always", "always"]
        end()
        end()
        cluster.refresh(["v"])
        assert called == ["once", "always", "always"]


def test_unexpected_error_reaches_waiter_and_next_reading_works(monkeypatch):
    with FakeCluster() as fake, static_cluster(fake) as cluster:
        fail_readings(monkeypatch, cluster._source, LookupError("a defect"))
        with pytest.raises(ClientError, match="a defect"):
            cluster.refresh()
        cluster.refresh()


def test_unreadable_source_is_warned_of_once(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "zkbroker.client.view_reader")
    with FakeCluster() as fake, static_cluster(fake) as cluster:
        fail_readings(monkeypatch, cluster._source, *[NoBrokersAvailable("no broker answers")] * 3)
        for _ in range(3):
            with pytest.raises(NoBrokersAvailable):
                cluster.refresh()
        cluster.refresh()
    levels = [record.levelname for record in caplog.records if "metadata reading" in record.message]
    assert levels[0] == "WARNING"
    assert set(levels[1:]) == {"DEBUG"}
