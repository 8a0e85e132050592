"""The ZooKeeper registry: every znode of brokers, topics, groups and the cluster.

Invariant: this is the only room that speaks to ZooKeeper, and the tree it keeps is the one that
Kafka 0.8 to 2.x keeps, so that the tools and clients of those versions find their way.
"""

from zkbroker.registry.errors import (
    BadVersion,
    BrokerIdInUse,
    ClaimBlocked,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    TransactionFailed,
)
from zkbroker.registry.nodes import Check, Create, Delete, NodeStat, Operation, SetData, Settable
from zkbroker.registry.session import SessionState, ZkSession

__all__ = [
    "BadVersion",
    "BrokerIdInUse",
    "Check",
    "ClaimBlocked",
    "ConnectionLost",
    "Create",
    "Delete",
    "NoNode",
    "NodeExists",
    "NodeStat",
    "NotEmpty",
    "Operation",
    "SessionLost",
    "SessionState",
    "SetData",
    "Settable",
    "TransactionFailed",
    "ZkSession",
]
