"""The group coordinator and the store of committed offsets; no sockets."""

from zkbroker.coordinator.coordinator import GroupCoordinator, GroupDescription
from zkbroker.coordinator.election import elect
from zkbroker.coordinator.group import Group, GroupState
from zkbroker.coordinator.member import JoinRequest, JoinResult, SyncResult
from zkbroker.coordinator.offsets import OffsetsStore, PartitionLog, StoreSettings
from zkbroker.coordinator.partitions import CoordinatorSettings
from zkbroker.coordinator.placement import group_partition

__all__ = [
    "GroupCoordinator",
    "CoordinatorSettings",
    "GroupDescription",
    "Group",
    "GroupState",
    "JoinRequest",
    "JoinResult",
    "SyncResult",
    "elect",
    "OffsetsStore",
    "PartitionLog",
    "StoreSettings",
    "group_partition",
]
