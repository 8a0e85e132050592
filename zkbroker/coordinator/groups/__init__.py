"""The group coordinator and the store of committed offsets; no sockets."""

from zkbroker.coordinator.groups.coordinator import GroupCoordinator, GroupDescription
from zkbroker.coordinator.groups.election import elect
from zkbroker.coordinator.groups.group import Group, GroupState
from zkbroker.coordinator.groups.member import JoinRequest, JoinResult, SyncResult
from zkbroker.coordinator.groups.offsets import OffsetsStore, StoreSettings
from zkbroker.coordinator.groups.partitions import CoordinatorSettings

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
    "StoreSettings",
]
