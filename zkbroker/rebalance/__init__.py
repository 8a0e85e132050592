"""Consumer groups in ZooKeeper: the owners of partitions, and rebalances.

Invariant: at rest every partition of every subscribed topic has exactly one owner. This room uses
no sockets, and ZooKeeper only through the registry.
"""

from zkbroker.rebalance.assignor import (
    ASSIGNORS,
    range_assign,
    roundrobin_assign,
    thread_ids,
)
from zkbroker.rebalance.member import GroupMember, Owned, OwnershipListener
from zkbroker.rebalance.rebalancer import Rebalancer
from zkbroker.rebalance.store import ZkGroupStore

__all__ = [
    "ASSIGNORS",
    "GroupMember",
    "Owned",
    "OwnershipListener",
    "Rebalancer",
    "ZkGroupStore",
    "range_assign",
    "roundrobin_assign",
    "thread_ids",
]
