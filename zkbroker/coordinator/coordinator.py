"""All groups that this broker coordinates: those whose partition of `__consumer_offsets` it hosts.

Invariants:
- A group is known only while its partition is owned and loaded. Before: error 14 (loading) or 16
  (another broker's).
- Everything here runs in the broker's one event loop; only `commit`, the store of an assignment and
  the removal of offsets may wait (for the disk), and the state of the group is looked at again
  afterwards.
- Sessions and rebalances end by the deadline heap, in one task; old offsets expire and large
  partitions are rewritten in another.

Offsets expire as since Kafka 2.1: those of a group that is empty, a retention after it became so;
those of a consumer outside group management, a retention after their commit; those committed with
a time of their own, then, as soon as the group is empty.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from zkbroker.coordinator.deadlines import DeadlineHeap
from zkbroker.coordinator.group import Group, GroupState, Stored
from zkbroker.coordinator.member import (
    JoinReply,
    JoinRequest,
    JoinResult,
    SyncReply,
    SyncResult,
)
from zkbroker.coordinator.offsets import (
    OffsetsStore,
    PartitionLog,
    StoreSettings,
    TopicPartitionKey,
)
from zkbroker.coordinator.placement import OFFSETS_TOPIC, group_partition
from zkbroker.errors import ErrorCode, ProtocolError, StorageError
from zkbroker.protocol.offsets_topic import GroupValue, OffsetValue
from zkbroker.runtime.base import Runtime

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Settings of the coordinator; times in milliseconds.

    Args:
        min_session_ms, max_session_ms: what a member may ask for.
        initial_rebalance_delay_ms: how long an empty group gathers members.
        max_group_size: members of one group.
        retention_ms: how long offsets of an empty group are kept.
        maintenance_ms: between two looks for expired offsets.
        rewrite_check_ms: between two looks for partitions that are worth a rewrite.
        store: how the partitions are written.
    """

    min_session_ms: int = 6000
    max_session_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_group_size: int = 2**31 - 1
    retention_ms: int = 7 * 24 * 3_600_000
    maintenance_ms: int = 600_000
    rewrite_check_ms: int = 5000
    store: StoreSettings = field(default_factory=StoreSettings)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """What an operator is shown; (id, client id, host, metadata, assignment) of each member."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[tuple[str, str, str, bytes, bytes], ...] = ()


class _Partition:
    """A partition of the offsets topic that is hosted here."""

    def __init__(self, number: int, store: OffsetsStore) -> None:
        self.number = number
        self.store = store
        self.groups: dict[str, Group] = {}
        self.loaded = False


class GroupCoordinator:
    """Coordinates groups.

    Args:
        settings: see there.
        runtime: for the tasks and for letting others run.
        partition_count: how many partitions the offsets topic has.
        clock_ms: a clock that never jumps, for sessions and rebalances.
        wall_ms: the time of day, for what is stored.
        new_member_id: makes member ids from client ids; unique ones unless a test says otherwise.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        runtime: Runtime,
        partition_count: Callable[[], int],
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        new_member_id: Callable[[str], str] = lambda client_id: f"{client_id}-{uuid.uuid4()}",
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._partition_count = partition_count
        self._clock_ms = clock_ms
        self._wall_ms = wall_ms
        self._new_member_id = new_member_id
        self._partitions: dict[int, _Partition] = {}
        self._deadlines: DeadlineHeap[Group] = DeadlineHeap()
        self._wake = runtime.event()
        self._closed = runtime.event()

    # --- life cycle -------------------------------------------------------------------------

    def start(self) -> None:
        """Start the tasks for sessions and for upkeep."""
        self._runtime.spawn(self._run_deadlines, name="group-deadlines")
        self._runtime.spawn(self._run_upkeep, name="offsets-upkeep")

    def close(self) -> None:
        """Answer everything that waits with error 16 and stop; nothing is written."""
        self._closed.set()
        self._wake.set()
        for number in list(self._partitions):
            self.give_up(number)

    def take_up(self, number: int, log: PartitionLog) -> None:
        """Coordinate the groups of a partition from now on; it is loaded in a task of its own."""
        partition = _Partition(number, OffsetsStore(log, self._settings.store))
        self._partitions[number] = partition
        self._runtime.spawn(self._load, partition, name=f"load-{OFFSETS_TOPIC}-{number}")

    def give_up(self, number: int) -> None:
        """Coordinate the groups of a partition no longer."""
        partition = self._partitions.pop(number, None)
        if partition is not None:
            for group in partition.groups.values():
                group.close(ErrorCode.NOT_COORDINATOR)
                self._deadlines.discard(group)

    def partition_of(self, group_id: str) -> int:
        """The partition that a group belongs to."""
        return group_partition(group_id, self._partition_count())

    def owned(self) -> dict[int, bool]:
        """The partitions that are hosted here, and whether each is loaded."""
        return {number: partition.loaded for number, partition in self._partitions.items()}

    # --- membership -------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """A member joins; `reply` is called when its group's rebalance is over."""
        partition, error = self._find(group_id)
        if error is ErrorCode.NONE and not (
            self._settings.min_session_ms
            <= request.session_timeout_ms
            <= self._settings.max_session_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if partition is None or error is not ErrorCode.NONE:
            reply(JoinResult(error, request.member_id))
            return
        group = partition.groups.get(group_id)
        if group is None:
            if request.member_id:
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self._create(partition, group_id)
        group.join(request, reply, self._clock_ms())
        self._schedule(group)

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes],
        reply: SyncReply,
    ) -> None:
        """A member asks for its assignment; `reply` is called when the leader has brought it."""
        group, error = self._find_group(group_id)
        if group is None:
            reply(SyncResult(error))
            return
        group.sync(member_id, generation, assignments, reply, self._clock_ms())
        self._schedule(group)

    def heartbeat(self, group_id: str, member_id: str, generation: int) -> ErrorCode:
        """A member is alive."""
        group, error = self._find_group(group_id)
        return error if group is None else group.heartbeat(member_id, generation, self._clock_ms())

    def leave(self, group_id: str, member_id: str) -> ErrorCode:
        """A member goes."""
        group, error = self._find_group(group_id)
        if group is None:
            return error
        error = group.leave(member_id, self._clock_ms())
        self._schedule(group)
        return error

    # --- offsets ----------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        offsets: Mapping[TopicPartitionKey, OffsetValue],
    ) -> ErrorCode:
        """Commit offsets; returns when they are as durable as the flush policy asks."""
        partition, error = self._find(group_id)
        if partition is None or error is not ErrorCode.NONE:
            return error
        group = partition.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._create(partition, group_id)
        error = group.check_commit(member_id, generation, self._clock_ms())
        if error is not ErrorCode.NONE or not offsets:
            return error
        try:
            partition.store.commit(group_id, offsets, self._wall_ms())
        except (ProtocolError, StorageError) as failure:
            return self._storage_error("commit", group_id, failure)
        return ErrorCode.NONE

    def offsets(self, group_id: str) -> tuple[ErrorCode, Mapping[TopicPartitionKey, OffsetValue]]:
        """The committed offsets of a group, or why they cannot be told."""
        partition, error = self._find(group_id)
        if partition is None or error is not ErrorCode.NONE:
            return error, {}
        return ErrorCode.NONE, partition.store.offsets(group_id)

    # --- operators --------------------------------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        """What a group looks like; state Dead for one that does not exist."""
        partition, error = self._find(group_id)
        if partition is None or error is not ErrorCode.NONE:
            return GroupDescription(error, group_id)
        group = partition.groups.get(group_id)
        if group is None:
            return GroupDescription(ErrorCode.NONE, group_id, GroupState.DEAD.value)
        stable = group.state is GroupState.STABLE
        return GroupDescription(
            ErrorCode.NONE,
            group_id,
            group.state.value,
            group.protocol_type or "",
            (group.protocol or "") if stable else "",
            tuple(
                (
                    m.member_id,
                    m.client_id,
                    m.client_host,
                    m.metadata(group.protocol) if stable else b"",
                    m.assignment if stable else b"",
                )
                for m in group.members.values()
            ),
        )

    def list_groups(self) -> tuple[ErrorCode, list[tuple[str, str]]]:
        """(group id, protocol type) of every group; error 14 while a partition is loading."""
        loading = any(not partition.loaded for partition in self._partitions.values())
        return (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
            [
                (group.group_id, group.protocol_type or "")
                for partition in self._partitions.values()
                for group in partition.groups.values()
            ],
        )

    def delete(self, group_id: str) -> ErrorCode:
        """Delete an empty group with its offsets."""
        partition, error = self._find(group_id)
        if partition is None or error is not ErrorCode.NONE:
            return error
        group = partition.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._drop(partition, group)
        try:
            partition.store.remove(
                group_id, list(partition.store.offsets(group_id)), self._wall_ms(), metadata=True
            )
        except (ProtocolError, StorageError) as failure:
            return self._storage_error("delete", group_id, failure)
        return ErrorCode.NONE

    def forget_topic(self, topic: str) -> None:
        """Forget every offset of a topic that was deleted."""
        for partition in list(self._partitions.values()):
            if not partition.loaded:
                continue
            for group_id in partition.store.group_ids():
                gone = [key for key in partition.store.offsets(group_id) if key[0] == topic]
                if gone:
                    self._remove_offsets(partition, group_id, gone)

    # --- upkeep -----------------------------------------------------------------------------

    def expire_offsets(self) -> int:
        """Forget what has expired; returns how many offsets that were."""
        now_ms, count = self._wall_ms(), 0
        for partition in list(self._partitions.values()):
            if not partition.loaded:
                continue
            for group in list(partition.groups.values()):
                if group.state is not GroupState.EMPTY:
                    continue
                offsets = partition.store.offsets(group.group_id)
                gone = [
                    key for key, value in offsets.items() if self._expired(group, value, now_ms)
                ]
                count += len(gone)
                if len(gone) == len(offsets):
                    self._drop(partition, group)
                    self._remove_offsets(partition, group.group_id, gone, metadata=True)
                elif gone:
                    self._remove_offsets(partition, group.group_id, gone)
        return count

    def rewrite_large(self) -> int:
        """Rewrite the partitions that are mostly out of date; returns how many."""
        count = 0
        for partition in list(self._partitions.values()):
            if partition.loaded and partition.store.wants_rewrite():
                try:
                    partition.store.rewrite(self._wall_ms(), lambda: self._runtime.sleep(0))
                except (ProtocolError, StorageError) as failure:
                    logger.error(  # noqa: TRY400 - the reason is in the message, the log has told
                        "offsets_topic_rewrite_failed partition=%d reason=%s",
                        partition.number,
                        failure,
                    )
                    continue
                count += 1
        return count

    def tick(self) -> None:
        """End the sessions and rebalances that have come due."""
        now_ms = self._clock_ms()
        for group in self._deadlines.pop_due(now_ms):
            group.tick(now_ms)
            self._schedule(group)

    def _expired(self, group: Group, value: OffsetValue, now_ms: int) -> bool:
        if value.expire_timestamp_ms >= 0:
            return now_ms >= value.expire_timestamp_ms
        since = value.commit_timestamp_ms
        if group.protocol_type is not None:
            since = max(since, group.state_since_ms)
        return now_ms - since >= self._settings.retention_ms

    def _remove_offsets(
        self,
        partition: _Partition,
        group_id: str,
        keys: Iterable[TopicPartitionKey],
        *,
        metadata: bool = False,
    ) -> None:
        try:
            partition.store.remove(group_id, keys, self._wall_ms(), metadata=metadata)
        except (ProtocolError, StorageError) as failure:
            self._storage_error("remove", group_id, failure)

    def _run_deadlines(self) -> None:
        while not self._closed.is_set():
            earliest = self._deadlines.earliest()
            wait_ms = None if earliest is None else max(0, earliest - self._clock_ms())
            self._wake.wait(None if wait_ms is None else wait_ms / 1000)
            self._wake.clear()
            if not self._closed.is_set():
                self.tick()

    def _run_upkeep(self) -> None:
        next_expiry_ms = self._clock_ms() + self._settings.maintenance_ms
        while not self._closed.wait(self._settings.rewrite_check_ms / 1000):
            if self._clock_ms() >= next_expiry_ms:
                self.expire_offsets()
                next_expiry_ms = self._clock_ms() + self._settings.maintenance_ms
            self.rewrite_large()

    # --- inside -----------------------------------------------------------------------------

    def _load(self, partition: _Partition) -> None:
        started_ms = self._clock_ms()
        try:
            count = partition.store.load(lambda: self._runtime.sleep(0))
        except StorageError as error:
            # stays "loading": answering from half a cache would lose offsets
            logger.error(  # noqa: TRY400 - the reason is in the message
                "offsets_topic_load_failed partition=%d reason=%s", partition.number, error
            )
            return
        if self._partitions.get(partition.number) is not partition:
            return  # given up meanwhile
        now_ms = self._clock_ms()
        for group_id in partition.store.group_ids():
            group = self._create(partition, group_id)
            value = partition.store.group(group_id)
            if value is not None:
                group.restore(value, now_ms)
                self._schedule(group)
        partition.loaded = True
        logger.info(
            "offsets_topic_loaded partition=%d records=%d groups=%d ms=%d",
            partition.number,
            count,
            len(partition.groups),
            now_ms - started_ms,
        )

    def _find(self, group_id: str) -> tuple[_Partition | None, ErrorCode]:
        if not group_id:
            return None, ErrorCode.INVALID_GROUP_ID
        partition = self._partitions.get(self.partition_of(group_id))
        if partition is None:
            return None, ErrorCode.NOT_COORDINATOR
        if not partition.loaded:
            return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return partition, ErrorCode.NONE

    def _find_group(self, group_id: str) -> tuple[Group | None, ErrorCode]:
        partition, error = self._find(group_id)
        if partition is None or error is not ErrorCode.NONE:
            return None, error
        group = partition.groups.get(group_id)
        return group, ErrorCode.NONE if group is not None else ErrorCode.UNKNOWN_MEMBER_ID

    def _create(self, partition: _Partition, group_id: str) -> Group:
        group = Group(
            group_id,
            store=lambda value, stored: self._store(partition, group_id, value, stored),
            new_member_id=self._new_member_id,
            initial_delay_ms=self._settings.initial_rebalance_delay_ms,
            max_size=self._settings.max_group_size,
            wall_ms=self._wall_ms,
        )
        partition.groups[group_id] = group
        return group

    def _drop(self, partition: _Partition, group: Group) -> None:
        group.close(ErrorCode.UNKNOWN_MEMBER_ID)
        self._deadlines.discard(group)
        partition.groups.pop(group.group_id, None)

    def _store(
        self, partition: _Partition, group_id: str, value: GroupValue, stored: Stored
    ) -> None:
        error = ErrorCode.NONE
        try:
            last_offset = partition.store.store_group(group_id, value, self._wall_ms())
            if value.members:
                partition.store.wait_durable(last_offset)
        except (ProtocolError, StorageError) as failure:
            error = self._storage_error("store_group", group_id, failure)
        stored(error, self._clock_ms())

    def _storage_error(self, what: str, group_id: str, failure: Exception) -> ErrorCode:
        logger.error(
            "offsets_topic_write_failed operation=%s group=%s reason=%s", what, group_id, failure
        )
        if isinstance(failure, ProtocolError) and failure.code is ErrorCode.MESSAGE_TOO_LARGE:
            if what == "commit":
                return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _schedule(self, group: Group) -> None:
        deadline = group.next_deadline()
        if deadline is not None and self._deadlines.add(group, deadline):
            self._wake.set()
