"""The cluster as a partitioner sees it."""

from types import SimpleNamespace

from zkbroker.client import BrokerAddress, PartitionInfo
from zkbroker.producer import ClusterMetadata, DefaultPartitioner
from zkbroker.producer.partitioners import sees_whole_message

KNOWN = (PartitionInfo("t", 0, 1), PartitionInfo("t", 1, None), PartitionInfo("t", 2, 0))


def test_cluster_metadata_shows_known_partitions_and_brokers():
    brokers = {2: BrokerAddress(2, "b", 2), 0: BrokerAddress(0, "a", 1)}
    cluster = SimpleNamespace(
        known_partitions=lambda topic: KNOWN if topic == "t" else None, brokers=lambda: brokers
    )
    metadata = ClusterMetadata(cluster)
    assert metadata.partitions_for_topic("t") == KNOWN
    assert metadata.available_partitions_for_topic("t") == (KNOWN[0], KNOWN[2])
    assert metadata.partition_count_for_topic("t") == 3
    assert metadata.partitions_for_topic("other") == ()
    assert metadata.partition_count_for_topic("other") == 0
    assert [each.id for each in metadata.nodes()] == [0, 2]


def test_partitioner_form_is_recognized_by_required_arguments():
    class Whole:
        def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
            return 0

    class WithDefault:
        def partition(self, topic, key, key_bytes, value, value_bytes, cluster, seed=1):
            return 0

    class Anything:
        def partition(self, *args):
            return 0

    assert sees_whole_message(Whole())
    assert sees_whole_message(WithDefault())
    assert not sees_whole_message(Anything())
    assert not sees_whole_message(DefaultPartitioner())
    assert not sees_whole_message(object())
