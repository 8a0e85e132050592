"""Discovery: which broker leads what, and a connection to it.

Invariant: what a `Cluster` says was read from its source, and a change there that is watched or
reported shows in it without anybody asking; staleness is bounded in any case.
"""

from zkbroker.discovery.cluster import Cluster
from zkbroker.discovery.metadata import StaticSource
from zkbroker.discovery.single import SingleAddressSource
from zkbroker.discovery.view import (
    BrokerAddress,
    BrokerUnavailable,
    NoBrokersAvailable,
    PartitionInfo,
    Partitions,
)
from zkbroker.discovery.zookeeper import ZooKeeperSource

__all__ = [
    "BrokerAddress",
    "BrokerUnavailable",
    "Cluster",
    "NoBrokersAvailable",
    "PartitionInfo",
    "Partitions",
    "SingleAddressSource",
    "StaticSource",
    "ZooKeeperSource",
]
