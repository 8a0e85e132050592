"""Parts that all clients share: partitions with their leaders, and connections to brokers.

Invariant: everything that a `Cluster` returns was read from its source. A change that is watched or
reported there is read by itself; staleness is bounded in any case.
"""

from zkbroker.client.cluster import Cluster
from zkbroker.client.metadata_source import StaticSource
from zkbroker.client.single_address import SingleAddressSource
from zkbroker.client.view import (
    BrokerAddress,
    BrokerUnavailable,
    NoBrokersAvailable,
    PartitionInfo,
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
    "Partitions",
    "SingleAddressSource",
    "StaticSource",
    "TopicPartition",
    "ZooKeeperSource",
]
