"""ZooKeeper: a session, nodes and changes to them as data, watches, and an embedded server.

Invariant: this is the only room that imports kazoo; everybody else speaks of nodes and sessions in
the terms defined here.
"""

from zkbroker.zookeeper.errors import (
    BadVersion,
    BrokerIdInUse,
    ClaimBlocked,
    ConnectionLost,
    LoginRefused,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    SessionLost,
    TransactionFailed,
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
    "LoginRefused",
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
    "ZkSession",
]
