"""Leadership: this broker appends for a partition, and follows the progress of its other replicas.

Invariants: messages are appended under the leader epoch that the controller decided; epochs only
grow within a leadership. The high watermark is the smallest log end among the replicas from which a
leader may be elected, and only grows. Consumers read below it. A leadership that is over appends,
answers and acknowledges nothing: its appended messages may have been truncated since.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from zkbroker.errors import ErrorCode, NotEnoughReplicas, OffsetOutOfRange, ProtocolError
from zkbroker.log import AppendResult, Log
from zkbroker.log.producers.stability import Verification
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.records import Expanded, RequestBudget
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.isr import InSyncReplicas
from zkbroker.replica.remote import RemoteReplica
from zkbroker.replica.role import NO_EPOCH, LocalReplica, Role, other_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """Settings and callbacks that all leaderships of a broker share.

    Args:
        lag_ms: a replica that has not caught up for this long leaves the ISR
            (`replica.lag.time.max.ms`).
        isr_proposed: called when a change of the ISR is to be written; it must not wait.
        session_over: returns whether this broker's ZooKeeper session must have ended.
        epochs_may_fall: whether the controller's epoch is accepted when a log knows later ones, as
            in genuine brokers (`LeaderEpochFileCache.assign`): no checksum covers the epochs of
            batches, and states in ZooKeeper may have been lost. False where brokers raise the
            epochs in ZooKeeper to those of their logs: a deposed controller decided a lower one.
    """

    lag_ms: int = 10_000
    isr_proposed: Callable[["Leadership"], object] = lambda leadership: None
    session_over: Callable[[], bool] = lambda: False
    epochs_may_fall: bool = False


class Leadership(Role):
    """A replica that leads, in one epoch or in several that follow one another."""

    name = "leader"

    def __init__(
        self,
        replica: LocalReplica,
        state: LeaderAndIsrPartition,
        high_watermark: int,
        settings: LeaderSettings,
    ) -> None:
        super().__init__(replica, state, high_watermark)
        self._log = self.log  # kept to wait for flushes of its appends after the role is over
        self.isr = InSyncReplicas()
        self.epoch_start = 0
        """The log end at which the leadership in the current epoch began."""
        self.settings = settings
        self.remote: dict[int, RemoteReplica] = {}
        """The replicas on the other brokers, as far as they are known."""
        self._begin_epoch(state, keep_positions=False)

    def begin_epoch(self, state: LeaderAndIsrPartition) -> None:
        """Go on under a newer epoch; called under the lock, once the log has the epoch."""
        # In an epoch that this broker missed, another broker may have led, and followers may have
        # truncated their logs to its log: their earlier fetches from here prove nothing any more.
        keep = state.leader_epoch == self.leader_epoch + 1
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = tuple(state.replicas)
        self._begin_epoch(state, keep_positions=keep)

    def _begin_epoch(self, state: LeaderAndIsrPartition, *, keep_positions: bool) -> None:
        replica = self.replica
        self.isr = InSyncReplicas(tuple(state.isr), state.zk_version)
        self.epoch_start = self.log.log_end_offset
        now_ms = replica.runtime.clock_ms()
        before = self.remote if keep_positions else {}
        self.remote = {
            broker: before.get(broker) or RemoteReplica(broker)
            for broker in state.replicas
            if broker != replica.broker_id
        }
        for broker, remote in self.remote.items():
            remote.begin_epoch(now_ms, in_sync=broker in state.isr)
        self._advance(now_ms)

    def low_watermark(self, live: Collection[int]) -> int:
        """Return the lowest log start of the live replicas; -1 while it is not known."""
        starts = [r.log_start_offset for r in self.remote.values() if r.broker_id in live]
        return min([self.log.log_start_offset, *starts])

    # -- appending

    def append(
        self,
        data: bytes | bytearray | memoryview,
        *,
        acks: int = 1,
        now_ms: int | None = None,
        budget: RequestBudget | None = None,
        expanded: Expanded | None = None,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Append a producer's messages.

        Args:
            data: a message set; patched in place when writable.
            acks: -1 requires `min.insync.replicas` replicas in sync.
            now_ms: the broker's clock.
            budget: how much the request may still make the broker decompress.
            expanded: see `Log.append_as_leader`.
            verification: of the transaction that a batch may begin, see `Log.begin_verification`.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition: this leadership is over.
            NotEnoughReplicas: too few replicas are in sync; nothing was appended.
            ProtocolError, StorageError: see `Log.append_as_leader`.
        """
        with self.replica.lock:
            log = self.log
            if acks == -1:
                self._require_in_sync(log)
            result = log.append_as_leader(
                data,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                budget=budget,
                expanded=expanded,
                verification=verification,
            )
            return self.appended(result)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
    ) -> AppendResult:
        """Append the marker that ends a transaction; see `append` and `Log.end_transaction`."""
        with self.replica.lock:
            log = self.log
            self._require_in_sync(log)
            result = log.end_transaction(
                producer_id,
                producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader_epoch,
            )
            return self.appended(result)

    def _require_in_sync(self, log: Log) -> None:
        least, present = log.config.min_insync_replicas, len(self.isr.members)
        if present < least:
            raise NotEnoughReplicas(f"min.insync.replicas={least}, in sync {present}")

    def appended(self, result: AppendResult) -> AppendResult:
        """Process an append: raise the high watermark if possible, and wake waiting operations."""
        advanced, waiters = self._advance(), self.waiters
        if waiters.appends:
            waiters.appended()
        if advanced and waiters.marks:
            waiters.advanced(self.high_watermark)
        return result

    def safe(self, last_offset: int, acks: int) -> bool:
        """Whether an append may be acknowledged at once, without a wait.

        Raises:
            ProtocolError, StorageError: with acks -1, see `replicated`.
        """
        target = last_offset + 2 - self._log.config.flush_messages
        flushed = target <= 0 or self._log.recovery_point >= target
        return flushed and (acks != -1 or self.replicated(last_offset))

    def wait_flushed(self, last_offset: int, timeout_s: float | None) -> None:
        """Wait until the log's flush policy is met for messages up to an offset.

        Raises:
            StorageError, RequestTimedOut: see `Log.wait_durable`.
        """
        self._log.wait_durable(last_offset, timeout_s)

    def replicated(self, last_offset: int) -> bool:
        """Whether every replica in sync has the messages up to an offset.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition, StorageError: this leadership is over.
            ProtocolError: they have, but they are fewer than `min.insync.replicas` (20).
        """
        log = self.log
        if self.high_watermark <= last_offset:
            return False
        least, present = log.config.min_insync_replicas, len(self.isr.members)
        if present < least:
            raise ProtocolError(
                f"min.insync.replicas={least}, in sync {present} after the append",
                code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            )
        return True

    # -- deletion

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at an offset (-1: the high watermark); returns where it begins.

        Raises:
            ProtocolError: the cleanup policy is to compact only (44), or this leadership is over.
            OffsetOutOfRange: the offset is past the high watermark.
        """
        log = self.log
        if log.config.cleanup_policy == "compact":
            raise ProtocolError(
                "a compacted topic does not delete records by offset: set cleanup.policy to "
                "compact,delete",
                code=ErrorCode.POLICY_VIOLATION,
            )
        mark = self.high_watermark
        start = mark if offset == -1 else offset
        if not 0 <= start <= mark:
            raise OffsetOutOfRange(
                f"offset {offset} is not in [0, {mark}]", earliest=log.log_start_offset, latest=mark
            )
        log.advance_start_to(start)
        self.waiters.wake()
        return log.log_start_offset

    # -- replication

    def record_follower_fetch(
        self,
        replica_id: int,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        current_leader_epoch: int = NO_EPOCH,
    ) -> bool:
        """Record a follower's fetch that was served; the follower may enter the ISR.

        Args:
            replica_id: the follower.
            offset: from which it fetched.
            log_start_offset: of its log, -1 where unknown.
            leader_end: the log end when the fetch was served.
            current_leader_epoch: the epoch in which it follows; -1 where the request names none.

        Returns:
            Whether the replica is assigned to the partition; if not, its position is ignored.

        Raises:
            ProtocolError, NotLeaderForPartition: this leadership is over, or the epoch is not the
                current one.
        """
        with self.replica.lock:
            # The epoch may have changed since the read: a follower truncates its log in each.
            if self._why_over is not None:
                raise self._why_over(current_leader_epoch)
            if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
                raise other_epoch(self.key, current_leader_epoch, self.leader_epoch)
            remote = self.remote.get(replica_id)
            if remote is None:
                return False
            now_ms = self.replica.runtime.clock_ms()
            deleted = log_start_offset > remote.log_start_offset
            remote.fetched(offset, log_start_offset, leader_end, now_ms)
            members = self.isr.members
            if replica_id not in members and remote.may_join(
                self.high_watermark, self.epoch_start, self.log.log_start_offset
            ):
                self._propose({*members, replica_id})
            advanced = self._advance(now_ms)
        if deleted:
            self.waiters.deleted()
        if advanced:
            self.waiters.advanced(self.high_watermark)
        return True

    def check_isr(self) -> None:
        """Propose an ISR without the replicas that lag; to be called every half lag time."""
        with self.replica.lock:
            if self.over:
                return
            end, now_ms = self.log.log_end_offset, self.replica.runtime.clock_ms()
            lagging = {
                broker
                for broker, remote in self.remote.items()
                if remote.lags(end, now_ms, self.settings.lag_ms)
            }
            self._propose({*self.isr.members} - lagging)
            advanced = self._advance(now_ms)
        if advanced:
            self.waiters.advanced(self.high_watermark)

    def _propose(self, members: set[int]) -> None:
        if self.isr.propose(members):
            self.settings.isr_proposed(self)

    def record_stored_version(self, leader_epoch: int, zk_version: int) -> None:
        """Compare the stored version of an epoch: another broker may have changed the ISR."""
        with self.replica.lock:
            current = not self.over and leader_epoch == self.leader_epoch
            if current and zk_version > self.isr.zk_version and self.isr.read_again():
                self.settings.isr_proposed(self)

    def proposed_isr(self) -> LeaderAndIsr | None:
        """Return the decision to write to ZooKeeper; None when there is none, or it is over."""
        with self.replica.lock:
            if self.over or self.isr.proposed is None:
                return None
            return self._decision(self.isr.proposed)

    def decision(self) -> LeaderAndIsr | None:
        """Return the decision of the controller, with the ISR written since; None when over."""
        with self.replica.lock:
            return None if self.over else self._decision(self.isr.members)

    def _decision(self, isr: tuple[int, ...]) -> LeaderAndIsr:
        return LeaderAndIsr(
            self.leader, self.leader_epoch, isr, self.controller_epoch, self.isr.zk_version
        )

    def resolve_isr(self, asked: LeaderAndIsr, update: IsrUpdate) -> bool:
        """Apply the result of a proposed ISR; True when it changed the ISR."""
        with self.replica.lock:
            if self.over or asked.leader_epoch != self.leader_epoch:
                return False
            before = set(self.isr.members)
            self.isr.resolve(update)
            after = set(self.isr.members)
            self.replica.shrinks += bool(before - after)
            self.replica.expands += bool(after - before)
            self._advance()
        self.waiters.wake()
        return before != after

    def _advance(self, now_ms: int | None = None) -> bool:
        """Raise the high watermark to the end of what every electable replica has; False if not."""
        if self.isr.superseded:
            # The next leader may be a replica that was proposed here, stored, and never counted.
            return False
        mark = self.log.log_end_offset
        if self.remote:
            electable = self.isr.electable
            now_ms = self.replica.runtime.clock_ms() if now_ms is None else now_ms
            for broker, remote in self.remote.items():
                # A replica that keeps up counts too: it is about to enter the ISR.
                if broker in electable or remote.keeps_up(now_ms, self.settings.lag_ms):
                    mark = min(mark, remote.log_end_offset)
        if mark <= self.high_watermark:
            return False
        self.high_watermark = mark
        return True
