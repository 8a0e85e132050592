"""Removes committed offsets that have expired, and those of deleted topics.

Offsets expire as since Kafka 2.1: those of an empty group, one retention time after it became
empty; those of a consumer outside group management, one retention time after their commit; those
committed with an expiry time, at that time if the group is empty, else once it is.
"""

import logging

from zkbroker.coordinator.groups.group import Group, GroupState
from zkbroker.coordinator.groups.partitions import (
    CoordinatorSettings,
    GroupPartition,
    GroupPartitions,
    Removed,
)
from zkbroker.errors import ErrorCode
from zkbroker.protocol.offsets_topic import OffsetValue
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)


class Upkeep:
    """Removes offsets that are not needed any more."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        partitions: GroupPartitions,
        runtime: Runtime,
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._now_ms = runtime.now_ms

    def expire_offsets(self) -> int:
        """Remove the offsets that have expired; returns how many."""
        now_ms, count = self._now_ms(), 0
        for partition in self._partitions.hosted.loaded():
            for group in list(partition.groups.values()):
                count += self._expire(partition, group, now_ms)
        return count

    def _expire(self, partition: GroupPartition, group: Group, now_ms: int) -> int:
        group_id, store = group.group_id, partition.store
        removed: Removed = ErrorCode.NONE, None
        # A commit under way is stored first: it may be of the offsets that have expired.
        with store.lock:
            if group.state is not GroupState.EMPTY or store.has_pending(group_id):
                return 0
            offsets = store.offsets(group_id)
            gone = [key for key, value in offsets.items() if self._expired(group, value, now_ms)]
            if len(gone) == len(offsets):
                removed = self._partitions.remove_group(partition, group)
            elif gone:
                removed = self._partitions.remove_offsets(partition, group_id, gone)
        self._partitions.wait_removed(partition, group_id, removed)
        return len(gone)

    def forget_topic(self, topic: str) -> None:
        """Forget every offset of a topic that was deleted.

        Offsets in an open transaction are also forgotten: its commit would bring them back for a
        topic that does not exist, or for the next one of that name.
        """
        removals = []
        for partition in self._partitions.hosted.all():
            if partition.loaded:
                removed = self._partitions.remove_topic(partition, topic)
                removals += [(partition, *each) for each in removed]
            else:
                partition.deleted_topics.add(topic)
        # Not earlier: the topic may be created again, and its new offsets must stay.
        for each in removals:
            self._partitions.wait_removed(*each)

    def _expired(self, group: Group, value: OffsetValue, now_ms: int) -> bool:
        if value.expire_timestamp_ms >= 0:
            return now_ms >= value.expire_timestamp_ms
        since = value.commit_timestamp_ms
        if group.protocol_type is not None:
            since = max(since, group.state_since_ms)
        return now_ms - since >= self._settings.retention_ms
