"""Leaders of a 0.7 cluster."""

from zkbroker.legacy07 import ProducerConfig07
from zkbroker.legacy07.cluster import FixedLeaders07
from zkbroker.legacy07.sources import ListedSource07
from zkbroker.runtime import get_runtime
from zkbroker.types import Partition07


def test_broker_leads_its_partitions_before_registration():
    with FixedLeaders07(ListedSource07({0: ("a", 1), 1: ("b", 2)})) as cluster:
        # Only the partitions of another broker are registered yet.
        cluster.partitions("t")
        assert cluster.leader("t", Partition07(0, 1)) == 0
        assert cluster.leader("unknown", Partition07(1, 0)) == 1
        assert cluster.leader("t", Partition07(2, 0)) is None
        assert "t-2-0 has no leader: broker 2" in str(cluster.no_leader("t", Partition07(2, 0)))


def test_producer_cluster_has_fixed_leaders():
    config = ProducerConfig07(broker_list=("0:a:1",))
    assert isinstance(config.make_cluster(get_runtime("threads")), FixedLeaders07)
