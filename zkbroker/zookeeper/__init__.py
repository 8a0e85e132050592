"""ZooKeeper: a session, nodes and changes to them as data, watches, and an embedded server.

Invariant: this is the only package that imports kazoo; other packages use the nodes and sessions
defined here.
"""

from zkbroker.zookeeper.errors import (
    BadVersion,
    BrokerIdInUse,
    ClaimBlocked,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    SessionLost,
    TransactionFailed,
    ZkLoginRefused,
)
from zkbroker.zookeeper.nodes import Check, Create, Delete, NodeStat, Operation, SetData, Settable
from zkbroker.zookeeper.session import SessionState, ZkSession

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
    "NotPermitted",
    "Operation",
    "SessionLost",
    "SessionState",
    "SetData",
    "Settable",
    "TransactionFailed",
    "ZkLoginRefused",
    "ZkSession",
]
