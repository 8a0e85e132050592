"""All groups that this broker coordinates: those whose partition of `__consumer_offsets` it hosts.

Invariants:
- Everything here runs in the broker's one event loop. Only `commit`, the store of an assignment and
  the removal of offsets may wait (for replicas and disk); afterwards the state of the group is
  checked again. A request waits parked: it holds no request slot.
- One task ends sessions and rebalances by the deadline heap; another does the upkeep.
"""

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.coordinator.groups.group import GroupState
from zkbroker.coordinator.groups.member import (
    JoinReply,
    JoinRequest,
    JoinResult,
    SyncReply,
    SyncResult,
)
from zkbroker.coordinator.groups.metrics import GroupMetrics, group_metrics
from zkbroker.coordinator.groups.partitions import (
    CoordinatorSettings,
    GroupPartition,
    GroupPartitions,
)
from zkbroker.coordinator.groups.upkeep import Upkeep
from zkbroker.coordinator.stored_log import PartitionLog
from zkbroker.errors import ErrorCode, ProtocolError, StorageError
from zkbroker.protocol.offsets_topic import OffsetValue
from zkbroker.runtime import OwnerLoop, Park, Runtime, unparked
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_CLIENT_ID_IN_MEMBER_ID = 255


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as shown to operators; (id, client id, host, metadata, assignment) per member."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[tuple[str, str, str, bytes, bytes], ...] = ()


def unique_member_id(client_id: str) -> str:
    """Make a member id that begins with the client id, as genuine brokers do."""
    return f"{client_id[:_CLIENT_ID_IN_MEMBER_ID]}-{uuid.uuid4()}"


class GroupCoordinator:
    """Coordinates groups.

    Args:
        settings: of the coordinator.
        runtime: for its tasks, and to let others run.
        partition_count: how many partitions the offsets topic has.
        new_member_id: makes member ids from client ids; unique ones except in tests.
        led_here: returns whether this broker leads a partition of the offsets topic, as far as the
            metadata says.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        runtime: Runtime,
        partition_count: Callable[[], int],
        new_member_id: Callable[[str], str] = unique_member_id,
        led_here: Callable[[int], bool] = lambda number: False,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock_ms = runtime.clock_ms
        self._now_ms = runtime.now_ms
        self._deadlines = OwnerLoop(runtime, self._until_due, name="group-deadlines", logger=logger)
        self._partitions = GroupPartitions(
            settings,
            runtime=runtime,
            partition_count=partition_count,
            new_member_id=new_member_id,
            led_here=led_here,
            sooner=self._deadlines.set,
        )
        self.upkeep = Upkeep(settings, self._partitions, runtime)
        """Expires offsets."""
        maintenance_s = settings.maintenance_ms / 1000
        self._maintenance = OwnerLoop(
            runtime, self._maintain, name="offsets-upkeep", logger=logger, retry_s=maintenance_s
        )

    # --- life cycle -------------------------------------------------------------------------

    def start(self) -> None:
        """Start the tasks for sessions and for upkeep."""
        self._deadlines.start(0.0)
        self._maintenance.start(self._settings.maintenance_ms / 1000)

    def close(self, timeout_s: float = 5.0) -> None:
        """Answer every waiting request with error 16 and stop; nothing is written afterwards.

        Args:
            timeout_s: how long to wait for the current step of each task.
        """
        self._deadlines.end()
        for partition in self._partitions.hosted.all():
            self._partitions.release(partition.number)
        self._deadlines.close(timeout_s)
        self._maintenance.close(timeout_s)

    def host(self, number: int, log: PartitionLog) -> None:
        """Coordinate the groups of a partition from now on; a separate task loads it."""
        self._partitions.host(number, log)

    def release(self, number: int) -> None:
        """Stop coordinating the groups of a partition."""
        self._partitions.release(number)

    def forget_topic(self, topic: str) -> None:
        """Forget every offset of a topic that was deleted."""
        self.upkeep.forget_topic(topic)

    # --- membership -------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """A member joins; `reply` is called when its group's rebalance is over."""
        partition, error = self._partitions.find(group_id, named=True)
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
        if not self._partitions.memory.has_room_for_join(group, request, self._clock_ms()):
            # Other members may leave: this one retries.
            reply(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
            return
        if group is None:
            if request.member_id:
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self._partitions.create(partition, group_id)
        group.join(request, reply, self._clock_ms())
        self._partitions.schedule(group)

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes],
        reply: SyncReply,
    ) -> None:
        """A member asks for its assignment; `reply` is called when the leader has sent it."""
        group, error = self._partitions.find_group(group_id)
        if group is None:
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The rebalance was lost with the last coordinator. Clients rejoin after this error;
                # many do not expect error 14 here (Kafka 0.9 never sent it).
                error = ErrorCode.REBALANCE_IN_PROGRESS
            reply(SyncResult(error))
            return
        memory = self._partitions.memory
        if not memory.has_room_for_assignments(group, assignments, self._clock_ms()):
            reply(SyncResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        group.sync(member_id, generation, assignments, reply, self._clock_ms())
        self._partitions.schedule(group)

    def gone(self, group_id: str, reply: JoinReply | SyncReply) -> None:
        """The client of a waiting join or sync has disconnected; `reply` is not called any more."""
        group, _ = self._partitions.find_group(group_id)
        if group is not None:
            group.gone(reply, self._clock_ms())
            self._partitions.schedule(group)

    def heartbeat(self, group_id: str, member_id: str, generation: int) -> ErrorCode:
        """A member is alive; no error while its group is loading, as in every genuine broker.

        Sessions begin once the group is loaded, and clients take error 14 here as fatal.
        """
        group, error = self._partitions.find_group(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        return error if group is None else group.heartbeat(member_id, generation, self._clock_ms())

    def leave(self, group_id: str, member_id: str) -> ErrorCode:
        """A member leaves."""
        group, error = self._partitions.find_group(group_id)
        if group is None:
            return error
        error = group.leave(member_id, self._clock_ms())
        self._partitions.schedule(group)
        return error

    # --- offsets ----------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        offsets: Mapping[PartitionKey, OffsetValue],
        park: Park = unparked,
    ) -> ErrorCode:
        """Commit offsets; returns when they are as durable as the flush policy requires."""
        partition, error = self._partitions.find(group_id)
        if partition is None:
            return error
        if not offsets:
            return ErrorCode.NONE
        try:
            # Until the offsets are written, no later assignment is: its members begin at them.
            with partition.store.lock:
                error = self._check_commit(partition, group_id, member_id, generation)
                if error is not ErrorCode.NONE:
                    return error
                last = partition.store.commit(group_id, offsets, self._now_ms())
            partition.store.wait_durable(last, park)
        except (ProtocolError, StorageError) as failure:
            return self._partitions.storage_error("commit", group_id, failure)
        return ErrorCode.NONE

    def _check_commit(
        self, partition: GroupPartition, group_id: str, member_id: str, generation: int
    ) -> ErrorCode:
        if not self._partitions.hosted.holds(partition):
            return ErrorCode.NOT_COORDINATOR
        group = partition.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._partitions.create(partition, group_id)
        return group.check_commit(member_id, generation, self._clock_ms())

    def commit_transactional(
        self,
        group_id: str,
        producer: tuple[int, int],
        offsets: Mapping[PartitionKey, OffsetValue],
        verify: Callable[[int], ErrorCode],
        park: Park = unparked,
    ) -> ErrorCode:
        """Commit offsets that take effect once their producer's transaction is committed.

        Membership is not checked: the transaction fences a consumer that was replaced.

        Args:
            group_id: the group.
            producer: id and epoch.
            offsets: by partition.
            verify: asks the transaction's coordinator whether a partition of the offsets topic is
                part of the transaction.
            park: entered while the commit waits.
        """
        partition, error = self._partitions.find(group_id, named=True)
        if partition is None:
            return error
        if not offsets:
            return ErrorCode.NONE
        try:
            verification = partition.store.begin_verification(*producer)
            if verification is not None:
                error = verify(partition.number)
                if error is not ErrorCode.NONE:
                    return error
                if not self._partitions.hosted.holds(partition):
                    return ErrorCode.NOT_COORDINATOR
            if group_id not in partition.groups:
                self._partitions.create(partition, group_id)
            partition.store.commit_pending(
                group_id, producer, offsets, self._now_ms(), verification, park
            )
        except (ProtocolError, StorageError) as failure:
            return self._partitions.storage_error("commit", group_id, failure)
        finally:
            # The group may have been removed just before the append.
            self._partitions.create_of_offsets(partition, group_id)
        return ErrorCode.NONE

    def end_transaction(
        self, number: int, producer_id: int, marker_offset: int, *, commit: bool
    ) -> None:
        """Apply a marker in a partition of the offsets topic: its offsets take effect, or go."""
        partition = self._partitions.hosted.get(number)
        if partition is not None:  # else it is read from the log
            partition.store.end_transaction(producer_id, marker_offset, commit=commit)

    def offsets(self, group_id: str) -> tuple[ErrorCode, Mapping[PartitionKey, OffsetValue]]:
        """The committed offsets of a group, or an error."""
        partition, error = self._partitions.find(group_id)
        if partition is None:
            return error, {}
        return ErrorCode.NONE, partition.store.offsets(group_id)

    # --- operators --------------------------------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        """The description of a group; state Dead if it does not exist."""
        partition, error = self._partitions.find(group_id)
        if partition is None:
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
        hosted = self._partitions.hosted.all()
        loading = any(not partition.loaded for partition in hosted)
        return (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
            [
                (group.group_id, group.protocol_type or "")
                for partition in hosted
                for group in partition.groups.values()
            ],
        )

    def figures(self, limit: int) -> GroupMetrics:
        """The metrics of the groups, with at most `limit` committed offsets."""
        return group_metrics(self._partitions.hosted.loaded(), limit)

    def delete(self, group_id: str, park: Park = unparked) -> ErrorCode:
        """Delete an empty group with its offsets."""
        partition, error = self._partitions.find(group_id)
        if partition is None:
            return error
        with partition.store.lock:
            group = partition.groups.get(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.state is not GroupState.EMPTY or partition.store.has_pending(group_id):
                return ErrorCode.NON_EMPTY_GROUP
            removed = self._partitions.remove_group(partition, group)
        return self._partitions.wait_removed(partition, group_id, removed, park)

    # --- time -------------------------------------------------------------------------------

    def tick(self) -> None:
        """End the sessions and rebalances that have come due."""
        now_ms = self._clock_ms()
        for group in self._partitions.deadlines.pop_due(now_ms):
            group.tick(now_ms)
            self._partitions.schedule(group)

    def _maintain(self) -> float:
        self.upkeep.expire_offsets()
        return self._settings.maintenance_ms / 1000

    def _until_due(self) -> float | None:
        """Handle due deadlines; return the seconds until the next one, None if there is none."""
        self.tick()
        earliest = self._partitions.deadlines.earliest()
        return None if earliest is None else max(0, earliest - self._clock_ms()) / 1000
