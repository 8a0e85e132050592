"""A cluster behind one address."""

import threading

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.process import wait_until
from tests.support.producers import RUNTIMES
from zkbroker.client import Cluster, NoBrokersAvailable, SingleAddressSource
from zkbroker.errors import NotLeaderForPartition


@RUNTIMES
def test_only_hosted_partitions_have_leader_behind_single_address(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1, 0])
        fake.create("other", [1])
        source = SingleAddressSource(fake.brokers[0].address)
        with Cluster(source, runtime=runtime) as cluster:
            here = [p.partition for p in cluster.partitions("t") if p.leader is not None]
            assert here == [0, 2]
            with pytest.raises(NotLeaderForPartition, match="forward nothing"):
                cluster.partitions("other")
            one = cluster.any_connection()
            assert cluster.connection(-1, "fetch") is one
            assert len(fake.brokers[1].requests) == 0


def test_view_changes_when_another_broker_answers_behind_address():
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        source = SingleAddressSource(fake.brokers[0].address)
        with Cluster(source) as cluster:
            assert [p.leader is not None for p in cluster.partitions("t")] == [True, False]
            port = fake.brokers[0].port
            fake.brokers[0].stop()
            # The load balancer now connects to the other broker.
            stand_in = type(fake.brokers[1])(fake, 1, port)
            changed = threading.Event()
            cluster.watch(changed.set)

            def view_changed():
                # The old connection is used until its end is noticed.
                cluster.ask_any(lambda connection, wait_s: connection)
                return changed.wait(0.01)

            assert wait_until(view_changed)
            assert [p.leader is not None for p in cluster.partitions("t")] == [False, True]
            stand_in.stop()


def test_unreachable_single_address_raises_no_brokers_available():
    with pytest.raises(NoBrokersAvailable, match=r"broker\.address"):
        Cluster(SingleAddressSource("127.0.0.1:1"), connect_timeout_ms=500).start()
