"""The source of a cluster that lists its brokers."""

from zkbroker.client import Cluster
from zkbroker.errors import LeaderNotAvailable
from zkbroker.legacy07.sources import ListedSource07, first_of_each
from zkbroker.types import Partition07


def test_a_list_gives_one_place_for_each_broker():
    with Cluster(ListedSource07({7: ("b", 2), 3: ("a", 1)})) as cluster:
        found = cluster.partitions("any topic", create=True)
        assert [(each.partition, each.leader) for each in found] == [
            (Partition07(3, 0), 3),
            (Partition07(7, 0), 7),
        ]
        assert cluster.brokers()[7].host == "b"
        assert cluster.leader("any topic", Partition07(7, 0)) == 7
        assert cluster.leader("any topic", Partition07(7, 1)) is None
        assert cluster.topics() == []


def test_without_a_broker_there_is_no_place():
    assert isinstance(first_of_each("t", []), LeaderNotAvailable)
