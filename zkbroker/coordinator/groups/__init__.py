"""The group coordinator and the store of committed offsets; no sockets."""

from zkbroker.coordinator.groups.coordinator import GroupCoordinator
from zkbroker.coordinator.groups.member import JoinRequest, JoinResult, SyncResult
from zkbroker.coordinator.groups.offsets import StoreSettings
from zkbroker.coordinator.groups.partitions import CoordinatorSettings

__all__ = [
    "GroupCoordinator",
    "CoordinatorSettings",
    "JoinRequest",
    "JoinResult",
    "SyncResult",
    "StoreSettings",
]
