"""Following: this broker copies a partition from the leader of one epoch, or waits for a leader.

Invariant: a `Following` takes bytes, high watermarks and truncations of one leader epoch only.
Another epoch begins another `Following`, and this one is over.
"""

from zkbroker.log import AppendResult
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.role import NO_EPOCH, NO_LEADER, LocalReplica, Role


class Following(Role):
    """A replica that copies its leader's log; the leader is negative while none is known.

    Args: copied_from is the leader that was followed last; -1 if this broker has led since, or has
        followed none yet.
    """

    name = "follower"

    def __init__(
        self,
        replica: LocalReplica,
        state: LeaderAndIsrPartition,
        high_watermark: int,
        copied_from: int = NO_LEADER,
    ) -> None:
        super().__init__(replica, state, high_watermark)
        self.same_leader = copied_from == self.leader
        """Whether the leader is the one that was followed last."""
        self.copied_from = self.leader if self.leader >= 0 else copied_from

    @property
    def log_start_offset(self) -> int:
        log = self.replica.log
        return 0 if log is None else log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        log = self.replica.log
        return 0 if log is None else log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch in the log, -1 where it cannot be compared by epochs.

        Raises:
            NotLeaderForPartition, StorageError: see `Role.log`.
        """
        log = self.log
        # Messages in formats before magic 2 carry no epoch.
        return NO_EPOCH if log.config.pinned_magic in (0, 1) else log.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch in the log that is not newer than `epoch`, and where it ends."""
        return self.log.end_offset_for_epoch(epoch)

    def append(self, data: bytes | memoryview) -> AppendResult:
        """Append the leader's entries, byte for byte.

        Raises:
            NotLeaderForPartition: this role is over.
            ProtocolError, StorageError: see `Log.append_as_follower`.
        """
        with self.replica.lock:
            return self.log.append_as_follower(data)

    def wait_flushed(self) -> None:
        """Wait until the log's flush policy is met for everything that was appended.

        The leader takes the next fetch as proof that this replica has it, and acknowledges.

        Raises:
            NotLeaderForPartition: this role is over.
            StorageError: the disk failed, or the log was cut meanwhile.
        """
        log = self.log
        target = log.log_end_offset + 1 - log.config.flush_messages
        if target > 0 and log.recovery_point < target:
            log.wait_durable(log.log_end_offset - 1)

    def follow_marks(self, high_watermark: int, log_start_offset: int) -> None:
        """Adopt the leader's high watermark and log start.

        Raises:
            NotLeaderForPartition: this role is over.
            StorageError: the disk failed.
        """
        with self.replica.lock:
            log = self.log
            before = self.high_watermark
            self.high_watermark = max(before, min(high_watermark, log.log_end_offset))
            if log.log_start_offset < log_start_offset <= log.log_end_offset:
                log.advance_start_to(log_start_offset)
            self.high_watermark = max(self.high_watermark, log.log_start_offset)
        if self.high_watermark > before:
            self.replica.waiters.advanced(self.high_watermark)

    def truncate_to(self, offset: int) -> int:
        """Cut the log; returns its end.

        Raises:
            NotLeaderForPartition: this role is over.
            CorruptMessage, StorageError: see `Log.truncate_to`.
        """
        with self.replica.lock:
            end = self.log.truncate_to(offset)
            self.high_watermark = min(self.high_watermark, end)
            return end

    def restart_at(self, offset: int) -> None:
        """Empty the log and go on from an offset at which the leader's log begins.

        Raises:
            NotLeaderForPartition: this role is over.
            StorageError: the disk failed.
        """
        with self.replica.lock:
            self.log.truncate_fully_and_start_at(offset)
            self.high_watermark = offset
