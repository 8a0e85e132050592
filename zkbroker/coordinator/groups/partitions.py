"""The groups in the partitions of `__consumer_offsets` that are hosted here.

Invariant: a group is known only while its partition is hosted and loaded; exactly as long its
memory is counted and its deadline is in the heap.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from zkbroker.coordinator.groups.deadlines import DeadlineHeap
from zkbroker.coordinator.groups.group import Group, GroupState, Stored
from zkbroker.coordinator.groups.memory import GroupMemory
from zkbroker.coordinator.groups.offsets import OffsetsStore, StoreSettings
from zkbroker.coordinator.hosted import HostedPartition, HostedPartitions
from zkbroker.coordinator.stored_log import PartitionLog, write_error
from zkbroker.errors import ErrorCode, ProtocolError, StorageError, ZkbrokerError
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC, GroupValue
from zkbroker.runtime import Park, Runtime, unparked
from zkbroker.runtime.repeated_lines import RepeatedLines
from zkbroker.types import PartitionKey

_TOO_LARGE = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
_ANSWERS = {
    "commit": _TOO_LARGE,
    # It is unknown whether the assignment is stored: the members join again.
    "store_group": {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS},
}
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Expected errors of a change of leader: members ask again."""

Removed: TypeAlias = tuple[ErrorCode, int | None]
"""Why nothing was removed, and up to which offset to wait until the removal is durable."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Settings of the coordinator; times in milliseconds.

    Args:
        min_session_ms, max_session_ms: bounds of the session time-outs that members request.
        initial_rebalance_delay_ms: how long an empty group waits for more members.
        max_group_size: how many members one group may have.
        metadata_bytes: memory for all groups and their members' metadata and assignments.
        retention_ms: how long offsets of an empty group are kept.
        maintenance_ms: between two checks for expired offsets.
        store: how to read and write the partitions.
    """

    min_session_ms: int = 6000
    max_session_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_group_size: int = 2**31 - 1
    metadata_bytes: int = 256 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3_600_000
    maintenance_ms: int = 600_000
    store: StoreSettings = field(default_factory=StoreSettings)


class GroupPartition(HostedPartition):
    """A partition of the offsets topic, with its store and its groups."""

    def __init__(self, number: int, store: OffsetsStore) -> None:
        super().__init__(number)
        self.store = store
        self.groups: dict[str, Group] = {}
        self.deleted_topics: set[str] = set()
        """Topics that were deleted during the load; their offsets are removed at its end."""


class GroupPartitions:
    """The groups of all hosted partitions.

    Args:
        settings: of the coordinator.
        runtime: for the tasks that load and store.
        partition_count: how many partitions the offsets topic has.
        new_member_id: makes member ids from client ids.
        led_here: see `HostedPartitions`.
        sooner: called when a new deadline is the earliest of all; must not wait.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        runtime: Runtime,
        partition_count: Callable[[], int],
        led_here: Callable[[int], bool],
        new_member_id: Callable[[str], str],
        sooner: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock_ms = runtime.clock_ms
        self._now_ms = runtime.now_ms
        self._new_member_id = new_member_id
        self._sooner = sooner
        self.deadlines: DeadlineHeap[Group] = DeadlineHeap()
        self.memory = GroupMemory(settings.metadata_bytes)
        self._failures = RepeatedLines(clock=lambda: runtime.clock_ms() / 1000)
        self.hosted: HostedPartitions[GroupPartition] = HostedPartitions(
            OFFSETS_TOPIC,
            self._read,
            self._serve,
            runtime=runtime,
            partition_count=partition_count,
            led_here=led_here,
        )

    def host(self, number: int, log: PartitionLog) -> None:
        """Coordinate the groups of a partition from now on."""
        self.hosted.host(GroupPartition(number, OffsetsStore(log, self._settings.store)))

    def release(self, number: int) -> None:
        """Stop coordinating them; waiting requests are answered with error 16."""
        partition = self.hosted.release(number)
        if partition is not None:
            for group in partition.groups.values():
                self._close(group, ErrorCode.NOT_COORDINATOR)

    def find(
        self, group_id: str, *, named: bool = False
    ) -> tuple[GroupPartition | None, ErrorCode]:
        """The partition of a group, or the error for which it is not coordinated here.

        Args:
            group_id: its name; old consumers outside group management commit under an empty one.
            named: whether the name must not be empty (else error 24).
        """
        if named and not group_id:
            return None, ErrorCode.INVALID_GROUP_ID
        return self.hosted.find(group_id)

    def find_group(self, group_id: str) -> tuple[Group | None, ErrorCode]:
        """A group, or an error; error 25 if it does not exist."""
        partition, error = self.find(group_id, named=True)
        if partition is None:
            return None, error
        group = partition.groups.get(group_id)
        return group, ErrorCode.NONE if group is not None else ErrorCode.UNKNOWN_MEMBER_ID

    def create(self, partition: GroupPartition, group_id: str) -> Group:
        """Create an empty group."""
        group = Group(
            group_id,
            store=lambda value, stored: self._store(partition, group_id, value, stored),
            new_member_id=self._new_member_id,
            initial_delay_ms=self._settings.initial_rebalance_delay_ms,
            max_size=self._settings.max_group_size,
            wall_ms=self._now_ms,
        )
        partition.groups[group_id] = group
        self.memory.note(group)
        return group

    def _close(self, group: Group, error: ErrorCode) -> None:
        group.close(error)
        self.deadlines.discard(group)
        self.memory.forget(group)

    def schedule(self, group: Group) -> None:
        """Record a changed group: its size and its next deadline."""
        if group.state is not GroupState.DEAD:
            self.memory.note(group)
        deadline = group.next_deadline()
        if deadline is not None and self.deadlines.add(group, deadline):
            self._sooner()

    def remove_offsets(
        self,
        partition: GroupPartition,
        group_id: str,
        keys: Iterable[PartitionKey],
        *,
        metadata: bool = False,
    ) -> Removed:
        """Forget offsets of a group and, with `metadata`, the stored group itself."""
        try:
            last = partition.store.remove(group_id, keys, self._now_ms(), metadata=metadata)
        except (ProtocolError, StorageError) as failure:
            return self.storage_error("remove", group_id, failure), None
        return ErrorCode.NONE, last

    def remove_topic(self, partition: GroupPartition, topic: str) -> list[tuple[str, Removed]]:
        """Forget the offsets of all groups for a topic; returns the groups with their removals."""
        return [
            (group_id, self.remove_offsets(partition, group_id, gone))
            for group_id, gone in partition.store.keys_of_topic(topic).items()
        ]

    def remove_group(self, partition: GroupPartition, group: Group) -> Removed:
        """Remove a group with all of its offsets; if that could not be stored, the group stays.

        The caller holds the lock of the store since it found the group without members.
        """
        group_id, store = group.group_id, partition.store
        self._close(group, ErrorCode.UNKNOWN_MEMBER_ID)
        partition.groups.pop(group_id, None)
        removed = self.remove_offsets(
            partition, group_id, list(store.offsets(group_id)), metadata=True
        )
        if removed[0] is not ErrorCode.NONE:
            self.create_of_offsets(partition, group_id)
        return removed

    def wait_removed(
        self, partition: GroupPartition, group_id: str, removed: Removed, park: Park = unparked
    ) -> ErrorCode:
        """Wait until a removal is durable, and return its error."""
        error, last = removed
        if last is not None:
            try:
                partition.store.wait_durable(last, park)
            except (ProtocolError, StorageError) as failure:
                return self.storage_error("remove", group_id, failure)
        return error

    def create_of_offsets(self, partition: GroupPartition, group_id: str) -> None:
        """Create the group that stored offsets or metadata belong to, unless it exists."""
        if group_id in partition.groups or not self.hosted.holds(partition):
            return
        if group_id in partition.store.group_ids() | partition.store.pending_group_ids():
            self.create(partition, group_id)

    def _read(self, partition: GroupPartition) -> int:
        count = partition.store.load(lambda: self._runtime.sleep(0))
        while partition.deleted_topics:
            self.remove_topic(partition, partition.deleted_topics.pop())
        return count

    def _serve(self, partition: GroupPartition) -> None:
        now_ms = self._clock_ms()
        for group_id in partition.store.group_ids() | partition.store.pending_group_ids():
            group = self.create(partition, group_id)
            value = partition.store.group(group_id)
            if value is not None:
                group.restore(value, now_ms)
                self.schedule(group)

    def _store(
        self, partition: GroupPartition, group_id: str, value: GroupValue, stored: Stored
    ) -> None:
        try:
            last_offset = partition.store.store_group(group_id, value, self._now_ms())
        except (ProtocolError, StorageError) as failure:
            stored(self.storage_error("store_group", group_id, failure), self._clock_ms())
            return
        if not value.members:
            stored(ErrorCode.NONE, self._clock_ms())
            return
        # The leader's request waits like those of the other members, and holds nothing.
        self._runtime.spawn(
            self._wait_stored, partition, group_id, last_offset, stored, name=f"store-{group_id}"
        )

    def _wait_stored(
        self, partition: GroupPartition, group_id: str, last_offset: int, stored: Stored
    ) -> None:
        error = ErrorCode.NONE
        try:
            partition.store.wait_durable(last_offset)
        except (ProtocolError, StorageError) as failure:
            error = self.storage_error("store_group", group_id, failure)
        stored(error, self._clock_ms())
        group = partition.groups.get(group_id)
        if group is not None and self.hosted.holds(partition):
            self.schedule(group)

    def storage_error(self, what: str, group_id: str, failure: ZkbrokerError) -> ErrorCode:
        """Log that a record could not be written, and return the error code for the member.

        Members retry, often at once: equal failures of a group are logged once a minute.
        """
        code = failure.code if isinstance(failure, ProtocolError) else None
        left_out = self._failures.admit((what, group_id, code))
        if left_out is not None:
            level = logging.ERROR
            if what == "commit" and code in _TOO_LARGE:
                level = logging.WARNING  # the member's own request is too large
            elif code in _PASSING:
                level = logging.INFO
            logger.log(
                level,
                "offsets_topic_write_failed operation=%s group=%s left_out=%d reason=%s",
                what,
                group_id,
                left_out,
                failure,
            )
        return write_error(failure, _ANSWERS.get(what))
