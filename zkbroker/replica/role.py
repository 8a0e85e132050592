"""The role of this broker for a partition, from one decision of the controller to the next.

    Leadership    it appends, and follows the progress of the other replicas
    Following     it copies from a leader, or waits for one
    Offline       its data directory failed
    Deleted       its log is being deleted

Invariant: a partition has one role at a time. A role that is over has no log any more: every call
that needs the log fails with the reason why the partition is not led here. Roles begin, change and
end under the lock of their replica.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from zkbroker.errors import ErrorCode, ProtocolError, StorageError, ZkbrokerError
from zkbroker.log import Log, TopicPartition
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.delayed import Waiters
from zkbroker.replica.reads import PartitionRead, ReadEnd
from zkbroker.runtime import Lock, Runtime

NO_LEADER = -1
NO_EPOCH = -1
NO_VERSION = -1


@dataclass(slots=True, eq=False)
class LocalReplica:
    """This broker's replica of a partition: the state that its roles share.

    Args:
        key: which partition.
        broker_id: this broker.
        runtime: its clock is the clock of the replica.
        lock: held while a role begins, ends or changes something.
        waiters: operations that wait for the partition.
        log: None before it is opened.
        shrinks: how often the ISR lost a member while this broker led.
        expands: how often it gained one.
    """

    key: TopicPartition
    broker_id: int
    runtime: Runtime
    lock: Lock
    waiters: Waiters
    log: Log | None = None
    shrinks: int = 0
    expands: int = 0


class Role:
    """One role of a replica.

    Args:
        replica: whose role it is.
        state: the controller's decision for the partition.
        high_watermark: as the role before it left it.
    """

    name: ClassVar[str]
    log: Log
    """The log, for the role alone; without one it raises, see `__getattr__`."""

    def __init__(
        self, replica: LocalReplica, state: LeaderAndIsrPartition, high_watermark: int
    ) -> None:
        self.replica = replica
        self.key = replica.key
        self.waiters = replica.waiters
        self.high_watermark = high_watermark
        """End of what consumers may read."""
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = tuple(state.replicas)
        self._why_over: Callable[[int], ZkbrokerError] | None = None
        if replica.log is not None:
            self.log = replica.log

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} epoch={self.leader_epoch}>"

    def end(self, why: Callable[[int], ZkbrokerError]) -> None:
        """End this role.

        Args:
            why: returns the error of later requests, for the epoch that a requester takes for the
                current one; -1 where it names none.
        """
        self._why_over = why
        self.__dict__.pop("log", None)

    @property
    def over(self) -> bool:
        """Whether another role has begun."""
        return self._why_over is not None

    def end_for(self, reader: ReadEnd) -> int:
        """Return where the log ends for a reader."""
        if reader is ReadEnd.HIGH_WATERMARK:
            return self.high_watermark
        if reader is ReadEnd.LOG_END:
            return self.log.log_end_offset
        return self.log.last_stable_offset(self.high_watermark)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        reader: ReadEnd = ReadEnd.HIGH_WATERMARK,
        min_one_entry: bool = True,
    ) -> PartitionRead:
        """Read as far as the reader sees.

        Raises:
            ProtocolError, StorageError: this role is over; or see `Log.read`.
        """
        log = self.log
        end, mark = log.log_end_offset, self.high_watermark
        stable = log.last_stable_offset(mark)
        visible = mark
        if reader is not ReadEnd.HIGH_WATERMARK:
            visible = end if reader is ReadEnd.LOG_END else stable
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
        """Read a copy that begins with whole entries; see `read`."""
        return self.log.read_bytes(offset, max_bytes, end=self.end_for(reader), min_one_entry=True)

    def __getattr__(self, name: str) -> Any:
        """Raise the error that tells why this role has no log; called for a missing attribute.

        Raises:
            NotLeaderForPartition, UnknownTopicOrPartition, StorageError: the role is over, or the
                log was never opened.
        """
        if name != "log":
            raise AttributeError(name)
        why_over = self.__dict__.get("_why_over")
        if why_over is not None:
            raise why_over(NO_EPOCH)
        raise StorageError(f"the log of {self.key} is offline")


class Offline(Role):
    """The data directory failed; the broker must be restarted."""

    name = "offline"


class Deleted(Role):
    """The partition is being deleted."""

    name = "deleted"


def other_epoch(key: TopicPartition, asked: int, current: int) -> ProtocolError:
    """Return the error for a leader epoch that is older (74) or newer (75) than the current one."""
    older = asked < current
    return ProtocolError(
        f"leader epoch {asked} of {key} is {'over' if older else 'not known'}: it is {current}",
        code=ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
    )
