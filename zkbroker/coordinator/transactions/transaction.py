"""The state machine of one transactional id: its producer and its transaction.

    Empty -- add --> Ongoing -- end --> PrepareCommit, PrepareAbort -- markers written -->
    CompleteCommit, CompleteAbort -- add --> Ongoing, -- init --> Empty
    Empty, Complete* -- unused for long --> Dead (a tombstone)

Every change is a transition: it is decided here, the caller writes it to `__transaction_state`, and
only then it takes effect. While it is pending, nothing else is decided.

Invariants: states follow each other only as `REACHED_FROM` allows. The epoch of a producer id only
grows; once a higher one is written, requests with a lower one change nothing. Between Prepare* and
Complete* nothing is decided but the completion.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.transaction_topic import TransactionState, TransactionValue
from zkbroker.types import PartitionKey

MAX_EPOCH: Final = 32766
"""The last epoch that a producer gets: one more is left for fencing it."""

PARTITION_BYTES: Final = 250
"""Approximate memory of a partition in a transaction: its key, and its place in the set."""
_ID_BYTES = 1000

_S = TransactionState
REACHED_FROM: Mapping[TransactionState, frozenset[TransactionState | None]] = {
    _S.EMPTY: frozenset({None, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
}
"""State → the states that it may follow; None: the transactional id was unknown."""

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_COMPLETE = {_S.PREPARE_COMMIT: _S.COMPLETE_COMMIT, _S.PREPARE_ABORT: _S.COMPLETE_ABORT}
_IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The state of a transactional id at one moment.

    Args:
        producer_id: of its transactions.
        producer_epoch: of the latest producer.
        timeout_ms: after which an ongoing transaction is aborted.
        state: of the transaction.
        partitions: of the transaction.
        last_update_ms: when this state was decided.
        start_ms: when the transaction began; -1 in Empty.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[PartitionKey] = frozenset()
    last_update_ms: int
    start_ms: int = -1

    @property
    def committing(self) -> bool:
        """Whether its transaction ends, or ended, by a commit."""
        return self.state in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)

    def to_value(self) -> TransactionValue:
        """Return the value to store."""
        topics: list[TxnTopicPartitions] | None = None
        if self.state is not _S.EMPTY:
            topics = by_topic(self.partitions)
        return TransactionValue(
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            self.state,
            topics,
            self.last_update_ms,
            self.start_ms,
        )

    @classmethod
    def from_value(cls, value: TransactionValue) -> "TransactionMetadata":
        """Read a stored value."""
        return cls(
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.timeout_ms,
            state=TransactionState(value.state),
            partitions=frozenset(
                (topic.topic, number) for topic in value.topics or () for number in topic.partitions
            ),
            last_update_ms=value.last_update_ms,
            start_ms=value.start_ms,
        )


def size_of(transactional_id: str, metadata: TransactionMetadata | None = None) -> int:
    """Return the approximate memory of an id in bytes.

    Args:
        transactional_id: the id.
        metadata: its state; None counts no partitions.
    """
    count = 0 if metadata is None else len(metadata.partitions)
    return _ID_BYTES + len(transactional_id) + count * PARTITION_BYTES


def by_topic(partitions: Iterable[PartitionKey]) -> list[TxnTopicPartitions]:
    """Group partitions by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [TxnTopicPartitions(topic, numbers) for topic, numbers in topics.items()]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a request.

    Args:
        answer: sent at once, or once the transition is written.
        write: the transition, pending from now on; None if there is none.
    """

    answer: ErrorCode
    write: TransactionMetadata | None = None


class Transaction:
    """One transactional id.

    Args:
        current: its stored state; None for an unknown id.
    """

    __slots__ = ("current", "pending")

    def __init__(self, current: TransactionMetadata | None = None) -> None:
        self.current = current
        self.pending: TransactionMetadata | None = None
        """The transition that is being written."""

    # -- requests of producers

    @property
    def needs_producer_id(self) -> bool:
        """Whether the next `init` needs a new producer id: there is none, or it is used up."""
        current = self.current
        return current is None or (
            self.pending is None and current.state in _IDLE and current.producer_epoch >= MAX_EPOCH
        )

    def init(self, timeout_ms: int, now_ms: int, new_producer_id: int | None = None) -> Decision:
        """Let a new producer take over; once written, `current` has its producer id and epoch.

        An ongoing transaction is aborted under a higher epoch that no producer gets: the previous
        producer is fenced, and the new one has to ask again.

        Args:
            timeout_ms: of its transactions.
            now_ms: the time of day.
            new_producer_id: an id that was never used, if `needs_producer_id`.
        """
        current = self.current
        if self.pending is not None or (current is not None and current.state in PREPARED):
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current is not None and current.state is _S.ONGOING:
            return self._fence(now_ms)
        if self.needs_producer_id:
            if new_producer_id is None:
                raise ValueError("a new producer id is needed")
            producer_id, epoch = new_producer_id, 0
        else:
            assert current is not None
            producer_id, epoch = current.producer_id, current.producer_epoch + 1
        return self._write(
            TransactionMetadata(
                producer_id=producer_id,
                producer_epoch=epoch,
                timeout_ms=timeout_ms,
                state=_S.EMPTY,
                last_update_ms=now_ms,
            )
        )

    def add(
        self, producer_id: int, epoch: int, partitions: Iterable[PartitionKey], now_ms: int
    ) -> Decision:
        """Add partitions to the transaction; the first ones begin it."""
        current = self.current
        if current is None or current.producer_id != producer_id:
            return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if current.producer_epoch != epoch or epoch > MAX_EPOCH:
            return Decision(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.pending is not None or current.state in PREPARED:
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        added = frozenset(partitions)
        ongoing = current.state is _S.ONGOING
        if ongoing and added <= current.partitions:
            return Decision(ErrorCode.NONE)
        return self._write(
            replace(
                current,
                state=_S.ONGOING,
                partitions=current.partitions | added if ongoing else added,
                last_update_ms=now_ms,
                start_ms=current.start_ms if ongoing else now_ms,
            )
        )

    def end(self, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> Decision:
        """Commit or abort the transaction; a repeated request gets the same answer."""
        current = self.current
        if current is None or current.producer_id != producer_id:
            return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch < current.producer_epoch:
            return Decision(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.pending is not None:
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current.state is _S.ONGOING:
            state = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
            return self._write(replace(current, state=state, last_update_ms=now_ms))
        if current.state is _S.EMPTY or current.committing != commit:
            return Decision(ErrorCode.INVALID_TXN_STATE)
        if current.state in PREPARED:
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Decision(ErrorCode.NONE)

    def verify(self, producer_id: int, epoch: int, partitions: Iterable[PartitionKey]) -> ErrorCode:
        """Whether messages may be written to partitions: NONE while they are in the transaction.

        They may not while the end of the transaction is being written: its markers come next.
        """
        current, pending = self.current, self.pending
        if current is None or current.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if current.producer_epoch != epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        ending = pending is not None and pending.state is not _S.ONGOING
        if (
            current.state is not _S.ONGOING
            or ending
            or not current.partitions.issuperset(partitions)
        ):
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    # -- decisions without a request

    def complete(self, now_ms: int) -> Decision:
        """Complete a prepared transaction: every partition has its marker."""
        current = self.current
        if current is None or self.pending is not None or current.state not in PREPARED:
            return Decision(ErrorCode.INVALID_TXN_STATE)
        return self._write(
            replace(
                current,
                state=_COMPLETE[current.state],
                partitions=frozenset(),
                last_update_ms=now_ms,
            )
        )

    def time_out(self, now_ms: int) -> Decision:
        """Abort a transaction that exceeded its time-out, and fence its producer."""
        current = self.current
        if (
            current is None
            or self.pending is not None
            or current.state is not _S.ONGOING
            or current.start_ms + current.timeout_ms >= now_ms
        ):
            return Decision(ErrorCode.INVALID_TXN_STATE)
        return self._fence(now_ms)

    def expire(self, now_ms: int, after_ms: int) -> Decision:
        """Forget an id that has been unused for a time; its record is a tombstone."""
        current = self.current
        if (
            current is None
            or self.pending is not None
            or current.state not in _IDLE
            or current.last_update_ms + after_ms > now_ms
        ):
            return Decision(ErrorCode.INVALID_TXN_STATE)
        return self._write(
            replace(current, state=_S.DEAD, partitions=frozenset(), last_update_ms=now_ms)
        )

    # -- transitions

    def _fence(self, now_ms: int) -> Decision:
        current = self.current
        assert current is not None
        return self._write(
            replace(
                current,
                state=_S.PREPARE_ABORT,
                producer_epoch=min(current.producer_epoch, MAX_EPOCH) + 1,
                last_update_ms=now_ms,
            ),
            ErrorCode.CONCURRENT_TRANSACTIONS,
        )

    def _write(self, target: TransactionMetadata, answer: ErrorCode = ErrorCode.NONE) -> Decision:
        before = None if self.current is None else self.current.state
        if before not in REACHED_FROM[target.state]:
            raise ValueError(f"{target.state.name} does not follow {before}")
        self.pending = target
        return Decision(answer, target)

    def written(self) -> TransactionMetadata:
        """Apply the pending transition: its record is on every replica in sync."""
        if self.pending is None:
            raise ValueError("no transition is pending")
        self.current, self.pending = self.pending, None
        return self.current

    def failed(self) -> None:
        """Drop the pending transition: its record was not written, or may not have been."""
        self.pending = None
