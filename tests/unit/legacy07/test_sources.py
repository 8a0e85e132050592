"""A 0.7 cluster from a list of brokers."""

import pytest

from zkbroker.client import Cluster
from zkbroker.errors import ProtocolError
from zkbroker.legacy07.sources import ListedSource07
from zkbroker.producer.outcomes import may_pass
from zkbroker.types import Partition07


def test_listed_broker_has_one_partition():
    with Cluster(ListedSource07({7: ("b", 2), 3: ("a", 1)})) as cluster:
        found = cluster.partitions("any topic", create=True)
        assert [(each.partition, each.leader) for each in found] == [
            (Partition07(3, 0), 3),
            (Partition07(7, 0), 7),
        ]
        assert cluster.brokers()[7].host == "b"
        assert cluster.leader("any topic", Partition07(7, 0)) == 7
        assert cluster.topics() == []


def test_empty_broker_list_raises_retriable_error_at_once():
    with (
        Cluster(ListedSource07({})) as cluster,
        pytest.raises(ProtocolError, match=r"no broker of the 0\.7 cluster is up") as raised,
    ):
        cluster.partitions("t", create=True, timeout_s=3600)
    assert may_pass(raised.value)
