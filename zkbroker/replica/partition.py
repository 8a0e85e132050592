"""A partition of which this broker has a replica: the only way to its log.

    told by the controller -- leader --> LEADER --- leader is another, or unknown --> FOLLOWER
    FOLLOWER -- leader --> LEADER        data directory failed --> OFFLINE
    told to stop, or not told yet --> FOLLOWER of nobody

Invariants: messages are appended as leader only under the leader epoch that the controller gave,
and as follower only for the leader that it named; epochs only grow. The high watermark is the
smallest log end among the replicas from which a leader may be elected, and only grows, but for a
truncation. Consumers read below it. No lock is held over a network or ZooKeeper call.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from zkbroker.errors import (
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderForPartition,
    OffsetOutOfRange,
    ProtocolError,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.log import AppendResult, Log, ReadResult, TopicPartition
from zkbroker.log.producers.stability import Verification
from zkbroker.log.segments.time_search import TimestampOffset
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.records import Expanded, RequestBudget
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.isr import InSyncReplicas
from zkbroker.replica.remote import RemoteReplica
from zkbroker.runtime import Runtime

NO_LEADER = -1
NO_EPOCH = -1


class Role(Enum):
    """What this broker is for a partition."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class ReadEnd(Enum):
    """How far a reader sees."""

    LOG_END = 1
    """A follower, and who inspects a log."""
    HIGH_WATERMARK = 2
    """A consumer."""
    LAST_STABLE = 3
    """A consumer of committed messages."""


class PartitionRead(NamedTuple):
    """What a read found; whoever gets it closes its slice.

    Args:
        found: the stored bytes.
        high_watermark: before this read was taken note of.
        last_stable_offset: likewise.
        log_end_offset: likewise.
        aborted: the aborted transactions in it, None unless committed messages were asked for.
    """

    found: ReadResult
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    aborted: list[AbortedTransaction] | None


@dataclass(slots=True)
class Unacknowledged:
    """What was appended as leader, and may be acknowledged once it is safe.

    Args:
        partition: where it went.
        last_offset: of what was appended.
        term: the leadership under which it was appended.
    """

    partition: "Partition"
    last_offset: int
    term: int

    def replicated(self) -> bool:
        """Whether every replica in sync has it; see `Partition.replicated`."""
        return self.partition.replicated(self)

    def not_in_time(self, timeout_s: float | None) -> ZkbrokerError:
        """Why it is not acknowledged when a wait for the replicas ends.

        A broker whose ZooKeeper session is over has been replaced as leader and cannot know it: its
        clients have to look for the new one, which RequestTimedOut does not make them do.
        """
        reason = f"not on every replica in sync within {timeout_s:g} s"
        if self.partition.session_over():
            return NotLeaderForPartition(f"{reason}, and ZooKeeper is out of reach")
        return RequestTimedOut(reason)

    @property
    def flushed(self) -> bool:
        """Whether the log's flush policy is known to be met."""
        log = self.partition.log
        target = self.last_offset + 2 - log.config.flush_messages
        return target <= 0 or log.recovery_point >= target

    def wait_flushed(self, timeout_s: float | None) -> None:
        """Wait until the log's flush policy is met.

        Raises:
            StorageError: the disk failed, or the log was cut meanwhile.
            RequestTimedOut: not within the time.
        """
        self.partition.log.wait_durable(self.last_offset, timeout_s)


@dataclass(slots=True)
class Appended(Unacknowledged):
    """An append as leader. Args: result has its offsets."""

    result: AppendResult

    def settled(self, acks: int) -> bool:
        """Whether it may be acknowledged at once; False where it has to be waited for.

        Raises:
            ProtocolError, StorageError: with acks -1, see `Partition.replicated`.
        """
        return self.flushed and (acks != -1 or self.partition.replicated(self))


class Partition:
    """One partition's replica on this broker.

    Args:
        key: which partition.
        broker_id: this broker.
        runtime: for its lock.
        clock_ms: monotonic milliseconds.
        lag_ms: after how long without being caught up a replica leaves the ISR.
        isr_proposed: called when a change of the ISR is to be written; it must not wait.
        session_over: tells whether this broker's ZooKeeper session must have ended.
    """

    def __init__(
        self,
        key: TopicPartition,
        broker_id: int,
        *,
        runtime: Runtime,
        clock_ms: Callable[[], int],
        lag_ms: int,
        isr_proposed: Callable[["Partition"], object] = lambda partition: None,
        session_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.session_over = session_over
        self.key = key
        self.broker_id = broker_id
        self.role = Role.FOLLOWER
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.controller_epoch = 0
        self.replicas: tuple[int, ...] = ()
        self.isr = InSyncReplicas()
        self.high_watermark = 0
        """End of what consumers may read."""
        self.epoch_start = 0
        """The log end at which this broker's leadership in the current epoch began."""
        self.shrinks = self.expands = 0
        self._clock_ms = clock_ms
        self._lag_ms = lag_ms
        self._isr_proposed = isr_proposed
        self._lock = runtime.lock()
        self._log: Log | None = None
        self._remote: dict[int, RemoteReplica] = {}
        self._term = 0
        self._gone = False
        self._append_watchers: dict[DelayedOperation, None] = {}
        self._mark_watchers: dict[DelayedOperation, int] = {}
        self._start_watchers: dict[DelayedOperation, None] = {}

    def __repr__(self) -> str:
        return f"<Partition {self.key} {self.role.value} epoch={self.leader_epoch}>"

    # -- state

    @property
    def log(self) -> Log:
        """Its log, for the rooms below and what works on files.

        Raises:
            StorageError: its data directory failed, or it was never opened.
        """
        if self._log is None or self.role is Role.OFFLINE:
            raise StorageError(f"the log of {self.key} is offline")
        return self._log

    @property
    def has_log(self) -> bool:
        return self._log is not None

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def term(self) -> int:
        """Which of this broker's leaderships it is; epochs may change within one."""
        return self._term

    @property
    def log_start_offset(self) -> int:
        return 0 if self._log is None else self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return 0 if self._log is None else self._log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """End of what readers of committed messages may read."""
        mark = self.high_watermark
        return mark if self._log is None else self._log.last_stable_offset(mark)

    def low_watermark(self, live: Collection[int]) -> int:
        """Below which no replica on a live broker has anything; -1 where that is not known yet.

        Raises:
            ProtocolError, StorageError: see `require_leader`.
        """
        self.require_leader()
        starts = [r.log_start_offset for r in self._remote.values() if r.broker_id in live]
        return min([self.log_start_offset, *starts])

    @property
    def under_replicated(self) -> bool:
        """Whether it is led here and a replica is not in sync."""
        return self.is_leader and len(self.isr.members) < len(self.replicas)

    @property
    def under_min_isr(self) -> bool:
        """Whether it is led here and takes no produces with acks=all."""
        return self.is_leader and len(self.isr.members) < self.log.config.min_insync_replicas

    def remote(self, broker_id: int) -> RemoteReplica | None:
        """What is known of the replica on another broker; only of use while this one leads."""
        return self._remote.get(broker_id)

    def open(self, log: Log, high_watermark: int) -> None:
        """Take the log.

        Args:
            log: the partition's log.
            high_watermark: as it was checkpointed, 0 for none.
        """
        self._log = log
        known = min(high_watermark, log.log_end_offset)
        self.high_watermark = max(known, log.log_start_offset)

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """Return the log if this broker leads the partition.

        Args:
            current_leader_epoch: the epoch that the asker takes for the current one; -1 to skip.

        Raises:
            UnknownTopicOrPartition: it was deleted.
            StorageError: its data directory failed.
            ProtocolError: the asker's epoch is older (74) or newer (75).
            NotLeaderForPartition: another broker leads it, or none.
        """
        if self.role is Role.LEADER and current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            log = self._log
            if log is not None:
                return log
        if self._gone:
            raise UnknownTopicOrPartition(f"{self.key} was deleted")
        if self.role is Role.OFFLINE:
            raise StorageError(f"the data directory of {self.key} is offline")
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            raise ProtocolError(
                f"leader epoch {current_leader_epoch} of {self.key} is "
                f"{'over' if older else 'not known'}: it is {self.leader_epoch}",
                code=ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            )
        raise NotLeaderForPartition(f"{self.key} is not led by this broker")

    # -- roles

    def become_leader(self, told: LeaderAndIsrPartition) -> bool:
        """Lead from now on; False when this broker led it already, in an earlier epoch.

        Raises:
            StorageError: the log cannot take the epoch.
            ProtocolError: the log knows a later epoch (74).
        """
        with self._lock:
            log = self.log
            log.begin_epoch(told.leader_epoch)
            new = self.role is not Role.LEADER
            # In an epoch that this broker did not hear of another one may have led, and followers
            # have cut their logs by that one's: what they fetched from here says nothing any more.
            heard_all = not new and told.leader_epoch == self.leader_epoch + 1
            self._take(told)
            self.epoch_start = log.log_end_offset
            now = self._clock_ms()
            others = [each for each in told.replicas if each != self.broker_id]
            self._remote = {each: self._remote.get(each) or RemoteReplica(each) for each in others}
            for replica in self._remote.values():
                begin = replica.begin_epoch if heard_all else replica.begin
                begin(now, in_sync=replica.broker_id in told.isr)
            if new:
                self._term += 1
            self.role = Role.LEADER
            self._advance(now)
        self.wake()
        return new

    def become_follower(self, told: LeaderAndIsrPartition) -> None:
        """Follow another broker, or nobody where the leader is unknown."""
        with self._lock:
            self._take(told)
            self.role = Role.FOLLOWER
        self.wake()

    def _take(self, told: LeaderAndIsrPartition) -> None:
        self.leader = told.leader
        self.leader_epoch = told.leader_epoch
        self.controller_epoch = told.controller_epoch
        self.replicas = tuple(told.replicas)
        self.isr = InSyncReplicas(tuple(told.isr), told.zk_version)

    def stop(self) -> None:
        """Neither lead nor follow any more, until told anew."""
        with self._lock:
            if self.role is Role.LEADER:
                self.role = Role.FOLLOWER
            self.leader = NO_LEADER
        self.wake()

    def mark_deleted(self) -> None:
        """Refuse everything: the log is being deleted."""
        with self._lock:
            self._gone = True
            self.role = Role.FOLLOWER
            self.leader = NO_LEADER
        self.wake()

    def mark_offline(self) -> None:
        """Refuse everything: the data directory failed."""
        self.role = Role.OFFLINE
        self.wake()

    # -- appending

    def append(
        self,
        data: bytes | bytearray | memoryview,
        *,
        acks: int = 1,
        term: int | None = None,
        now_ms: int | None = None,
        budget: RequestBudget | None = None,
        expanded: Expanded | None = None,
        verification: Verification | None = None,
    ) -> Appended:
        """Append what a producer sent, as leader.

        Args:
            data: a message set; patched in place when writable.
            acks: -1 asks for `min.insync.replicas` replicas in sync.
            term: append under this leadership alone.
            now_ms: the broker's clock.
            budget: what the request may still make the broker decompress.
            expanded: see `Log.append_as_leader`.
            verification: of the transaction that a batch may begin, see `begin_verification`.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition: see `require_leader`.
            NotEnoughReplicas: fewer are in sync; nothing was appended.
            ProtocolError, StorageError: see `Log.append_as_leader`.
        """
        with self._lock:
            log = self.require_leader()
            if term is not None and term != self._term:
                raise NotLeaderForPartition(f"another broker led {self.key} meanwhile")
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
            appended = Appended(self, result.last_offset, self._term, result)
            advanced = self._advance()
        self._wake_appended(advanced=advanced)
        return appended

    def _require_in_sync(self, log: Log) -> None:
        least, present = log.config.min_insync_replicas, len(self.isr.members)
        if present < least:
            raise NotEnoughReplicas(f"min.insync.replicas={least}, in sync {present}")

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Begin to ask whether a transaction may begin here; see `Log.begin_verification`.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition: see `require_leader`.
        """
        return self.require_leader().begin_verification(producer_id, producer_epoch)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
    ) -> Appended:
        """Append the marker that ends a transaction, as leader; see `Log.end_transaction`.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition: see `require_leader`.
            NotEnoughReplicas: fewer are in sync; nothing was appended.
            ProtocolError, StorageError: see `Log.end_transaction`.
        """
        with self._lock:
            log = self.require_leader()
            self._require_in_sync(log)
            result = log.end_transaction(
                producer_id,
                producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader_epoch,
            )
            appended = Appended(self, result.last_offset, self._term, result)
            advanced = self._advance()
        self._wake_appended(advanced=advanced)
        return appended

    def replicated(self, appended: Unacknowledged) -> bool:
        """Whether every replica in sync has what was appended.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition, StorageError: it will not be known here.
            ProtocolError: it is, and fewer replicas than `min.insync.replicas` have it (20).
        """
        log = self.require_leader()
        if appended.term != self._term:
            # It may have been cut off while another broker led.
            raise NotLeaderForPartition(f"{self.key} was led by another broker meanwhile")
        if self.high_watermark <= appended.last_offset:
            return False
        least, present = log.config.min_insync_replicas, len(self.isr.members)
        if present < least:
            raise ProtocolError(
                f"min.insync.replicas={least}, in sync {present} after the append",
                code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            )
        return True

    # -- reading

    def end_for(self, reader: ReadEnd) -> int:
        """Where the log ends for a reader."""
        if reader is ReadEnd.LOG_END:
            return self.log_end_offset
        return self.high_watermark if reader is ReadEnd.HIGH_WATERMARK else self.last_stable_offset

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        reader: ReadEnd = ReadEnd.HIGH_WATERMARK,
        current_leader_epoch: int = NO_EPOCH,
        min_one_entry: bool = True,
    ) -> PartitionRead:
        """Read as leader, as far as the reader sees.

        Raises:
            ProtocolError, StorageError: see `require_leader` and `Log.read`.
        """
        log = self.require_leader(current_leader_epoch)
        end = log.log_end_offset
        mark = self.high_watermark
        stable = log.last_stable_offset(mark)
        visible = (
            end
            if reader is ReadEnd.LOG_END
            else mark
            if reader is ReadEnd.HIGH_WATERMARK
            else stable
        )
        found = log.read(offset, max_bytes, end=visible, min_one_entry=min_one_entry)
        aborted = None
        if reader is ReadEnd.LAST_STABLE:
            try:
                aborted = log.aborted_transactions(offset, found)
            except BaseException:
                if found.slice is not None:
                    found.slice.close()
                raise
        return PartitionRead(found, mark, stable, end, aborted)

    def read_bytes(
        self, offset: int, max_bytes: int, *, reader: ReadEnd = ReadEnd.HIGH_WATERMARK
    ) -> bytes:
        """Read a copy, whole entries first; see `read`."""
        log = self.require_leader()
        return log.read_bytes(offset, max_bytes, end=self.end_for(reader), min_one_entry=True)

    def offset_for_timestamp(self, timestamp: int, reader: ReadEnd) -> TimestampOffset | None:
        """Find the first message, of those a reader sees, that is not older than a time (ms)."""
        return self.require_leader().offset_for_timestamp(timestamp, self.end_for(reader))

    def segment_offsets_before(self, timestamp: int, count: int, reader: ReadEnd) -> list[int]:
        """Return starts of segments last written before a time, newest first."""
        log = self.require_leader()
        return log.segment_offsets_before(timestamp, count, self.end_for(reader))

    def end_offset_for_epoch(self, epoch: int, current_leader_epoch: int) -> tuple[int, int]:
        """Return the last epoch that is not newer than one, and where it ends; -1, -1: unknown."""
        return self.require_leader(current_leader_epoch).end_offset_for_epoch(epoch)

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at an offset (-1: the high watermark); returns where it begins.

        Raises:
            ProtocolError: the log is compacted, and not deleted (44).
            OffsetOutOfRange: the offset is past the high watermark.
            NotLeaderForPartition, StorageError: see `require_leader`.
        """
        log = self.require_leader()
        if log.config.cleanup_policy == "compact":
            raise ProtocolError(
                "nothing of a compacted topic is deleted by its offset: set cleanup.policy to "
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
        self.wake()
        return log.log_start_offset

    # -- the leader's part of replication

    def note_fetch(
        self,
        replica_id: int,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        current_leader_epoch: int = NO_EPOCH,
    ) -> bool:
        """Take note of a follower's fetch that was served; it may enter the ISR by it.

        Args:
            replica_id: the follower.
            offset: from which it fetched.
            log_start_offset: of its log, -1 where unknown.
            leader_end: the log end when it was served.
            current_leader_epoch: the epoch in which it follows; -1 where the request does not say.

        Returns:
            Whether the replica is assigned; the position of another one counts for nothing.

        Raises:
            ProtocolError, NotLeaderForPartition: see `require_leader`; nothing was noted.
        """
        with self._lock:
            # The epoch may have changed since the read: a follower cuts its log in each.
            self.require_leader(current_leader_epoch)
            replica = self._remote.get(replica_id)
            if replica is None:
                return False
            now = self._clock_ms()
            deleted = log_start_offset > replica.log_start_offset
            replica.fetched(offset, log_start_offset, leader_end, now)
            members = self.isr.members
            if replica_id not in members and replica.may_join(
                self.high_watermark, self.epoch_start
            ):
                self._propose({*members, replica_id})
            advanced = self._advance(now)
        if deleted:
            for operation in self._start_watchers:
                operation.wake()
        if advanced:
            self._wake_advanced()
        return True

    def check_isr(self) -> None:
        """Propose to drop the replicas that lag from the ISR; to be called every half lag time."""
        with self._lock:
            if self.role is not Role.LEADER:
                return
            end, now = self.log_end_offset, self._clock_ms()
            staying = {
                each
                for each in self.isr.members
                if each not in self._remote or not self._remote[each].lags(end, now, self._lag_ms)
            }
            self._propose(staying)
            advanced = self._advance(now)
        if advanced:
            self._wake_advanced()

    def _propose(self, members: set[int]) -> None:
        if self.isr.propose(members):
            self._isr_proposed(self)

    def note_stored_version(self, leader_epoch: int, zk_version: int) -> None:
        """Take note of the version of what is stored for a leader epoch, as the controller says.

        A later one than is known here was written by another than this leader.
        """
        with self._lock:
            ours = self.role is Role.LEADER and leader_epoch == self.leader_epoch
            if ours and zk_version > self.isr.zk_version and self.isr.look_again():
                self._isr_proposed(self)

    def proposed_isr(self) -> LeaderAndIsr | None:
        """What is to be written to ZooKeeper; None when there is nothing, or no leadership."""
        with self._lock:
            if self.role is not Role.LEADER or self.isr.proposed is None:
                return None
            return self._decision(self.isr.proposed)

    def decision(self) -> LeaderAndIsr | None:
        """What this broker, as leader, was told or has written; None while it does not lead."""
        with self._lock:
            return None if self.role is not Role.LEADER else self._decision(self.isr.members)

    def _decision(self, isr: tuple[int, ...]) -> LeaderAndIsr:
        return LeaderAndIsr(
            self.broker_id, self.leader_epoch, isr, self.controller_epoch, self.isr.zk_version
        )

    def resolve_isr(self, asked: LeaderAndIsr, update: IsrUpdate) -> bool:
        """Take what became of a change that was written; True when the ISR changed by it."""
        with self._lock:
            if self.role is not Role.LEADER or asked.leader_epoch != self.leader_epoch:
                return False
            before = set(self.isr.members)
            self.isr.resolve(update)
            after = set(self.isr.members)
            self.shrinks += bool(before - after)
            self.expands += bool(after - before)
            self._advance(self._clock_ms())
        self.wake()
        return before != after

    def _advance(self, now: int | None = None) -> bool:
        """Raise the high watermark to what every electable replica has; False if it stays."""
        if self.role is not Role.LEADER or self._log is None:
            return False
        if self.isr.decided_anew:
            # The next leader may be one that was proposed here, stored, and never counted.
            return False
        mark = self._log.log_end_offset
        if self._remote:
            electable = self.isr.electable
            now = self._clock_ms() if now is None else now
            for broker_id, replica in self._remote.items():
                # One that keeps up is waited for too: it is about to enter the ISR.
                if broker_id in electable or replica.keeps_up(now, self._lag_ms):
                    mark = min(mark, replica.log_end_offset)
        if mark <= self.high_watermark:
            return False
        self.high_watermark = mark
        return True

    # -- the follower's part

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch in the log, -1 where it cannot be compared by epochs.

        Raises:
            StorageError: see `log`.
        """
        log = self.log
        # Messages that are stored in a format before magic 2 bear no epoch.
        return NO_EPOCH if log.config.pinned_magic in (0, 1) else log.epochs.latest

    def own_end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return what `end_offset_for_epoch` would, from this follower's log."""
        return self.log.end_offset_for_epoch(epoch)

    def append_from_leader(self, data: bytes | memoryview, leader_epoch: int) -> AppendResult:
        """Append what the leader of an epoch sent, byte for byte.

        Raises:
            NotLeaderForPartition: that leadership is over, or this broker leads.
            ProtocolError, StorageError: see `Log.append_as_follower`.
        """
        with self._lock:
            return self._following(leader_epoch).append_as_follower(data)

    def wait_flushed(self, leader_epoch: int) -> None:
        """Wait, as follower, until the log's flush policy is met for all that was appended.

        A leader takes the next fetch for word that this replica has it, and acknowledges.

        Raises:
            NotLeaderForPartition: that leadership is over.
            StorageError: the disk failed, or the log was cut meanwhile.
        """
        log = self._following(leader_epoch)
        target = log.log_end_offset + 1 - log.config.flush_messages
        if target > 0 and log.recovery_point < target:
            log.wait_durable(log.log_end_offset - 1)

    def follow_marks(self, high_watermark: int, log_start_offset: int, leader_epoch: int) -> None:
        """Take the leader's high watermark and log start.

        Raises:
            NotLeaderForPartition: that leadership is over.
            StorageError: the disk failed.
        """
        with self._lock:
            log = self._following(leader_epoch)
            before = self.high_watermark
            self.high_watermark = max(self.high_watermark, min(high_watermark, log.log_end_offset))
            if log.log_start_offset < log_start_offset <= log.log_end_offset:
                log.advance_start_to(log_start_offset)
            self.high_watermark = max(self.high_watermark, log.log_start_offset)
        if self.high_watermark > before:
            self._wake_advanced()

    def truncate_to(self, offset: int, leader_epoch: int) -> int:
        """Cut the log, as follower; returns its end.

        Raises:
            NotLeaderForPartition: that leadership is over.
            CorruptMessage, StorageError: see `Log.truncate_to`.
        """
        with self._lock:
            end = self._following(leader_epoch).truncate_to(offset)
            self.high_watermark = min(self.high_watermark, end)
            return end

    def start_anew_at(self, offset: int, leader_epoch: int) -> None:
        """Empty the log and go on from an offset, as follower: the leader's log begins there.

        Raises:
            NotLeaderForPartition: that leadership is over.
            StorageError: the disk failed.
        """
        with self._lock:
            self._following(leader_epoch).truncate_fully_and_start_at(offset)
            self.high_watermark = offset

    def _following(self, leader_epoch: int) -> Log:
        if self.role is not Role.FOLLOWER or self._gone or leader_epoch != self.leader_epoch:
            if self.role is Role.OFFLINE:
                raise StorageError(f"the data directory of {self.key} is offline")
            raise NotLeaderForPartition(f"{self.key} does not follow epoch {leader_epoch} any more")
        return self.log

    # -- who waits

    def watch_appends(self, operation: DelayedOperation) -> None:
        """Have an operation woken at each append, and when the role changes."""
        self._append_watchers[operation] = None

    def watch_high_watermark(self, operation: DelayedOperation, offset: int = -1) -> None:
        """Have an operation woken when the high watermark passes an offset or the role changes."""
        self._mark_watchers[operation] = offset

    def watch_log_starts(self, operation: DelayedOperation) -> None:
        """Have an operation woken when a follower's log start grows, or the role changes."""
        self._start_watchers[operation] = None

    def unwatch(self, operation: DelayedOperation) -> None:
        """Undo all of these."""
        self._start_watchers.pop(operation, None)
        self._append_watchers.pop(operation, None)
        self._mark_watchers.pop(operation, None)

    def wake(self) -> None:
        """Have everybody who waits look again."""
        for operation in (*self._append_watchers, *self._mark_watchers, *self._start_watchers):
            operation.wake()

    def _wake_appended(self, *, advanced: bool) -> None:
        for operation in self._append_watchers:
            operation.wake()
        if advanced and self._mark_watchers:
            self._wake_advanced()

    def _wake_advanced(self) -> None:
        mark = self.high_watermark
        for operation, offset in self._mark_watchers.items():
            if offset < mark:
                operation.wake()
