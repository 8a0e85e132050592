"""What every client shares: which broker leads what, and a connection to it.

Invariant: what a `Cluster` says was read from its source, and a change there that is watched or
reported shows in it without anybody asking; staleness is bounded in any case.
"""

from zkbroker.client.cluster import Cluster
from zkbroker.client.metadata_source import StaticSource
from zkbroker.client.single_address import SingleAddressSource
from zkbroker.client.view import (
    BrokerAddress,
    BrokerUnavailable,
    NoBrokersAvailable,
    PartitionInfo,
    PartitionLeaders,
    Partitions,
)
from zkbroker.client.zookeeper_source import ZooKeeperSource
from zkbroker.types import TopicPartition

__all__ = [
    "BrokerAddress",
    "BrokerUnavailable",
    "Cluster",
    "NoBrokersAvailable",
    "PartitionInfo",
    "PartitionLeaders",
    "Partitions",
    "SingleAddressSource",
    "StaticSource",
    "TopicPartition",
    "ZooKeeperSource",
]
