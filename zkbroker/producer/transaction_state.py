"""The states of a transaction, and the calls allowed in each; no network, no clock.

    new ──initialized──▶ ready ──begin──▶ open ──commit──▶ committing ──finish──▶ ready
                           ▲               │ ▲                 │
                           │             fail│               fail
                           │               ▼                   ▼
                           │             failed ◀──────────────┘
                           │               │ abort (from open and committing, too)
                           └───finish──── aborting
    any ──break_off──▶ broken           any ──close──▶ closed

Invariants: a transaction that failed is never committed. Once its end may have reached the
coordinator (`end_sent`), only the same end can be repeated. One call at a time is under way. The
first error is kept, and the next call raises it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from zkbroker.producer.errors import (
    InvalidTransactionState,
    ProducerClosed,
    TransactionAbortable,
    TransactionFatal,
)
from zkbroker.runtime import Lock
from zkbroker.types import PartitionKey


class State(Enum):
    """The state of a producer with a transactional id."""

    NEW = "not initialized"
    READY = "ready"
    OPEN = "in a transaction"
    FAILED = "in a transaction that failed"
    COMMITTING = "committing"
    ABORTING = "aborting"
    BROKEN = "unusable"
    CLOSED = "closed"


class ProducerTransactionState:
    """The state of one producer's transactions; any task may call any method.

    Args:
        guard: held for a few steps, none of which waits.

    Attributes:
        state: the present one.
        failure: the error that prevents a commit; None without one.
        producer_id: given by the coordinator; with the epoch.
        added: partitions that the coordinator has in the transaction.
        groups: groups whose offsets it has in the transaction.
        started: whether the coordinator may know the transaction, so that it has to be ended.
        start_known: whether the coordinator surely knows it.
        end_sent: whether the end may have reached the coordinator.
        committed: number of committed transactions; `aborted` likewise.
    """

    def __init__(self, guard: Lock) -> None:
        self._guard = guard
        self.state = State.NEW
        self.failure: TransactionAbortable | TransactionFatal | None = None
        self._unraised = False
        self._call = ""
        self.producer_id = -1
        self.producer_epoch = -1
        self.added: set[PartitionKey] = set()
        self.groups: set[str] = set()
        self.started = False
        self.start_known = False
        self.end_sent = False
        self.committed = 0
        self.aborted = 0

    # -- calls of the user

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Run one call, and refuse others meanwhile.

        Raises:
            InvalidTransactionState: another call is under way.
        """
        with self._guard:
            if self._call:
                raise InvalidTransactionState(
                    f"{name}() while {self._call}() is under way in another task: wait for that"
                )
            self._call = name
        try:
            yield
        finally:
            self._call = ""

    def check_new(self) -> None:
        """Check that the coordinator has not given a producer id yet.

        Raises:
            TransactionFatal: the producer is unusable.
            InvalidTransactionState: it has.
        """
        with self._guard:
            self._usable()
            if self.state is not State.NEW:
                raise self._invalid_state("init_transactions", "it is done once")

    def initialized(self, producer_id: int, producer_epoch: int) -> None:
        """Note the producer id and epoch that the coordinator gave."""
        with self._guard:
            self._usable()
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
            self.state = State.READY

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            InvalidTransactionState: one is open.
        """
        with self._guard:
            self._check_not_failed()
            if self.state is not State.READY:
                raise self._invalid_state("begin", "commit() or abort() it first")
            self.state = State.OPEN

    def check_open(self, name: str) -> None:
        """Check that a transaction is open and has not failed.

        Raises:
            TransactionAbortable: it failed.
            InvalidTransactionState: none is open.
        """
        with self._guard:
            self._check_not_failed()
            if self.state is not State.OPEN:
                raise self._invalid_state(name, "begin() first")

    def commit(self) -> None:
        """Begin or repeat a commit.

        Raises:
            TransactionAbortable: the transaction failed.
            InvalidTransactionState: none is open.
        """
        with self._guard:
            self._check_not_failed()
            if self.state not in (State.OPEN, State.COMMITTING):
                raise self._invalid_state("commit", "begin() first")
            self.state = State.COMMITTING

    def check_committing(self) -> None:
        """Check that the commit may continue.

        Raises:
            TransactionAbortable: the transaction failed.
        """
        with self._guard:
            self._check_not_failed()

    def abort(self) -> None:
        """Begin or repeat an abort.

        Raises:
            InvalidTransactionState: none is open, or it may be committed already.
        """
        with self._guard:
            self._usable()
            if self.state is State.COMMITTING and self.end_sent:
                raise InvalidTransactionState(
                    "abort() after a commit whose answer did not come: it may be committed. Call "
                    "commit() again, or close the producer and make a new one"
                )
            if self.state not in (State.OPEN, State.FAILED, State.COMMITTING, State.ABORTING):
                raise self._invalid_state("abort", "begin() first")
            self._unraised = False
            self.state = State.ABORTING

    def finish(self) -> None:
        """Note that the transaction has ended."""
        with self._guard:
            self._usable()
            if self.state is State.COMMITTING:
                self.committed += 1
            else:
                self.aborted += 1
            self.state = State.READY
            self.failure = None
            self.added, self.groups = set(), set()
            self.started = self.start_known = self.end_sent = False

    # -- failures

    def fail(self, error: TransactionAbortable) -> bool:
        """Note an error that prevents a commit; return whether it is the first."""
        with self._guard:
            if self.state not in (State.OPEN, State.COMMITTING) or self.end_sent:
                return False
            self.state, self.failure, self._unraised = State.FAILED, error, True
            return True

    def break_off(self, error: TransactionFatal) -> bool:
        """Note an error that makes the producer unusable; return whether it is the first."""
        with self._guard:
            if self.state in (State.BROKEN, State.CLOSED):
                return False
            self.state, self.failure, self._unraised = State.BROKEN, error, True
            return True

    def close(self) -> None:
        """Take no more calls."""
        with self._guard:
            self.state = State.CLOSED

    def abandon(self, guard: Lock) -> None:
        """Take no more calls in the child of a fork, where the guard may stay locked for ever."""
        self._guard = guard
        self.close()

    def mark_raised(self) -> None:
        """Note that a call raised the error."""
        self._unraised = False

    def unraised(self) -> TransactionAbortable | TransactionFatal | None:
        """Return the error that no call has raised yet."""
        return self.failure if self._unraised else None

    def _usable(self) -> None:
        if self.state is State.BROKEN:
            assert isinstance(self.failure, TransactionFatal)
            self._unraised = False
            # Each call raises it again, and would add its frames to those of earlier calls.
            raise self.failure.with_traceback(None)
        if self.state is State.CLOSED:
            raise ProducerClosed("the producer is closed: make a new one")

    def _check_not_failed(self) -> None:
        self._usable()
        if self.state is State.FAILED:
            assert isinstance(self.failure, TransactionAbortable)
            self._unraised = False
            raise self.failure.with_traceback(None)

    def _invalid_state(self, name: str, advice: str) -> InvalidTransactionState:
        return InvalidTransactionState(
            f"{name}() of a producer that is {self.state.value}: {advice}"
        )
