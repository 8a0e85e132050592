"""Connections of a cluster: shared, replaced and closed."""

import threading

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, static_cluster
from zkbroker.client.connections import Connections
from zkbroker.client.view import BrokerAddress, BrokerUnavailable
from zkbroker.errors import NetworkError
from zkbroker.runtime import get_runtime


@RUNTIMES
def test_connection_is_shared_per_lane_and_replaced_when_broken(runtime):
    with FakeCluster(1) as fake, static_cluster(fake, runtime) as cluster:
        first = cluster.connection(0)
        assert cluster.connection(0) is first
        polls = cluster.connection(0, "fetch")
        assert polls is not first
        first.close()
        assert cluster.connection(0) is not first
        assert cluster.connection(0, "fetch") is polls


@RUNTIMES
def test_concurrent_callers_share_one_connection(runtime):
    tasks = get_runtime(runtime)
    with FakeCluster(1) as fake, static_cluster(fake, runtime) as cluster:
        found = []
        running = [
            tasks.spawn(lambda: found.append(cluster.connection(0)), name="ask") for _ in range(8)
        ]
        assert all(task.join(10) for task in running)
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


def test_broker_with_new_address_is_reached_after_refresh():
    with FakeCluster(2) as fake, static_cluster(fake) as cluster:
        old = cluster.connection(1)
        fake.restart(1)
        cluster.refresh()
        new = cluster.connection(1)
        assert new.port == fake.brokers[1].port != old.port
        assert old.closed


def test_waits_for_failed_attempts_of_others_share_one_limit():
    class Waits:
        """A runtime whose waits end after 0.7 s, and one of its events."""

        lock = threading.RLock
        now_ms, limits_s = 0, ()

        def event(self):
            return self

        def clock_ms(self):
            return self.now_ms

        def wait(self, limit_s):
            self.limits_s += (limit_s,)
            self.now_ms += min(limit_s, 0.7) * 1000
            return limit_s > 0.7

        def set(self):
            pass

    def dial(host, port, limit_s):
        with pytest.raises(BrokerUnavailable, match="not reached yet"):
            connections.get(address, "")  # another caller, while this attempt fails
        raise NetworkError("refused")

    waits, address = Waits(), BrokerAddress(0, "h", 1)
    connections = Connections(waits, dial, attempt_timeout_s=1.0)
    with pytest.raises(BrokerUnavailable, match="refused"):
        connections.get(address, "")
    assert waits.limits_s == pytest.approx((1.0, 0.3))
