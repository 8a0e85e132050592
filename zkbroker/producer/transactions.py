"""Transactions of one producer: the user's calls, and the partitions that take part.

    begin ─▶ send … ─▶ [AddPartitionsToTxn] ─▶ Produce … ─▶ all answered ─▶ [EndTxn]
                 send_offsets ─▶ [AddOffsetsToTxn] ─▶ [TxnOffsetCommit] ──────▲

Invariants: nothing is sent to a partition before the coordinator has added it to the transaction,
and no request to the coordinator follows the end. `send` takes messages only in a transaction. A
message that was not stored makes its transaction fail; one in an unknown state makes the producer
unusable, since its next sequence number is then unknown too.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from zkbroker.client import Cluster
from zkbroker.client.group_offsets import Committed
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, RequestTimedOut, ZkbrokerError
from zkbroker.producer.errors import (
    Dropped,
    InvalidTransactionState,
    TransactionAbortable,
    TransactionAborted,
    TransactionError,
    TransactionFatal,
)
from zkbroker.producer.outcomes import SEQUENCE_LOST
from zkbroker.producer.transaction_requests import FENCED, TransactionRequests
from zkbroker.producer.transaction_state import ProducerTransactionState, State
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from zkbroker.producer.sender import Sender

logger = logging.getLogger(__name__)

_OF_THE_ID = FENCED | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


class HasGroup(Protocol):
    """An object that names a group, such as a `GroupConsumer`."""

    @property
    def group_id(self) -> str:
        """The group."""


class TransactionManager:
    """The transactions of one producer, whose configuration has a transactional id."""

    _sender: "Sender"
    """Set by `bind`, since the sender is made with these transactions."""

    def __init__(self, config: ProducerConfig, cluster: Cluster, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self.state = ProducerTransactionState(runtime.guard())
        self._requests = TransactionRequests(config, cluster, runtime, self.state)
        # Of the sender's loop: partitions to add, and whether a task is adding some.
        self._wanted: dict[PartitionKey, None] = {}
        self.adding = False

    def bind(self, sender: "Sender") -> None:
        """Connect the sender, which takes no messages before the first transaction."""
        self._sender = sender
        sender.send_queue.refuse(_not_in_transaction())

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (
            self._config.delivery_timeout_ms / 1000 if timeout_s is None else timeout_s
        )

    # -- the user's calls

    def init(self, timeout_s: float | None = None) -> None:
        """Make the coordinator end an open transaction of the id and fence its last producer."""
        deadline = self._deadline(timeout_s)
        with self.state.call("init_transactions"):
            if self.state.state is State.READY:
                return
            self._init(deadline)

    def _init(self, deadline: float) -> None:
        self.state.check_new()
        with self._break_off_on_fatal():
            identity = self._requests.init_producer_id(_left(deadline))
        self.state.initialized(*identity)
        self._sender.identify(*identity)
        logger.info(
            "transactions ready id=%s producer_id=%d epoch=%d",
            self._config.transactional_id,
            *identity,
        )

    def begin(self) -> None:
        """Begin a transaction."""
        with self.state.call("begin"):
            if self.state.state is State.NEW:
                self._init(self._deadline(None))
            self.state.begin()
            self._sender.send_queue.accept()

    def send_offsets(
        self,
        offsets: Mapping[PartitionKey, int | Committed],
        group: str | HasGroup,
        timeout_s: float | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction, or not at all."""
        deadline = self._deadline(timeout_s)
        group_id = group if isinstance(group, str) else group.group_id
        state = self.state
        with state.call("send_offsets"):
            state.check_open("send_offsets")
            if not offsets:
                return
            committed = {
                key: each if isinstance(each, Committed) else Committed(each)
                for key, each in offsets.items()
            }
            try:
                with self._break_off_on_fatal():
                    if group_id not in state.groups:
                        state.started = True
                        self._requests.add_offsets(group_id, _left(deadline))
                        state.start_known = True
                        state.groups.add(group_id)
                    self._requests.commit_offsets(group_id, committed, _left(deadline))
            except TransactionAbortable as error:
                self.fail(error)
                state.mark_raised()
                raise
            except ProtocolError as error:
                failure = TransactionAbortable(
                    f"the offsets of group {group_id} were not taken in time: {error}"
                )
                self.fail(failure)
                state.mark_raised()
                raise failure from error

    def commit(self, timeout_s: float | None = None) -> None:
        """Commit: wait until all messages are stored; readers then see them together."""
        deadline = self._deadline(timeout_s)
        with self.state.call("commit"):
            self.state.commit()
            self._sender.send_queue.refuse(_not_in_transaction())
            if not self.state.end_sent and not self._sender.wait_for_answers(_left(deadline)):
                self.fail(
                    TransactionAbortable(
                        "not every message was acknowledged in the time that commit() had"
                    )
                )
            self.state.check_committing()
            self._end(deadline, commit=True)

    def abort(self, timeout_s: float | None = None) -> None:
        """Abort: readers of committed messages see none of the messages."""
        deadline = self._deadline(timeout_s)
        with self.state.call("abort"):
            self.state.abort()
            aborted = _aborted()
            self._sender.send_queue.refuse(_not_in_transaction())
            self._sender.drop_unsent(aborted)
            if not self._sender.wait_for_answers(_left(deadline)):
                raise RequestTimedOut(
                    "the transaction is not aborted yet: messages of it are not answered; call "
                    "abort() again, or close the producer"
                )
            self._end(deadline, commit=False)

    def _end(self, deadline: float, *, commit: bool) -> None:
        if self.state.started:
            self.state.end_sent = True
            with self._break_off_on_fatal():
                self._requests.end(commit=commit, timeout_s=_left(deadline))
        self._sender.count_on()
        self.state.finish()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin; commit at the end of the block, or abort when an exception leaves it."""
        self.begin()
        try:
            yield
        except BaseException:
            self._abort_quietly()
            raise
        try:
            self.commit()
        except TransactionAbortable:
            self._abort_quietly()
            raise

    def _abort_quietly(self) -> None:
        """Abort without raising: the exception that the caller gets says more."""
        try:
            self.abort(self._config.close_timeout_ms / 1000)
        except ZkbrokerError as error:
            logger.warning("transaction not aborted error=%s", error)

    def close(self, timeout_s: float) -> TransactionError | None:
        """Abort an open transaction in time; return an error that no call has raised yet."""
        deadline = time.monotonic() + timeout_s
        unraised = self.state.unraised()
        found = self.state.state
        try:
            if found is State.COMMITTING and self.state.end_sent:
                self.commit(timeout_s)
            elif found in (State.OPEN, State.FAILED, State.COMMITTING, State.ABORTING):
                logger.warning("producer closed in a transaction, which is aborted")
                self.abort(_left(deadline))
        except ZkbrokerError as error:
            logger.warning(
                "transaction left to its coordinator, which aborts it after "
                "transaction.timeout.ms=%d error=%s",
                self._config.transaction_timeout_ms,
                error,
            )
        self.state.close()
        return unraised

    # -- of the sender's loop

    def admits(self, key: PartitionKey) -> bool:
        """Whether messages may go to a partition; otherwise note to add it."""
        if key in self.state.added:
            return True
        self._wanted[key] = None
        return False

    def unwanted(self) -> ClientError | None:
        """Return why unsent messages are dropped, None where they are not."""
        if self.state.state in (State.FAILED, State.ABORTING):
            return _aborted(self.state.failure)
        return None

    def add_wanted(self) -> None:
        """Start to add the noted partitions, unless a task is adding some."""
        if self._wanted and not self.adding:
            partitions, self._wanted = list(self._wanted), {}
            if self.state.state not in (State.OPEN, State.COMMITTING):
                return
            self.adding = True
            self.state.started = True
            self._runtime.spawn(self._add, partitions, name="producer-add-partitions")

    def _add(self, partitions: list[PartitionKey]) -> None:
        state = self.state
        try:
            self._requests.add_partitions(
                partitions,
                self._config.delivery_timeout_ms / 1000,
                lambda: state.state not in (State.OPEN, State.COMMITTING),
            )
        except TransactionFatal as error:
            self.break_off(error)
        except TransactionAbortable as error:
            self.fail(error)
        except ZkbrokerError as error:
            failure = TransactionAbortable(f"partitions were not added in time: {error}")
            failure.__cause__ = error
            self.fail(failure)
        else:
            state.start_known = True
            state.added.update(partitions)
        finally:
            self._sender.post(self._added)

    def _added(self) -> None:
        self.adding = False

    def not_stored(self, error: BaseException, *, uncertain: bool) -> None:
        """Note that messages of the transaction were given up; in the loop.

        Args:
            error: why.
            uncertain: whether they may still be stored.
        """
        if isinstance(error, TransactionError | Dropped):
            return
        code = getattr(error, "code", None)
        if code in _OF_THE_ID:
            self.break_off(self._requests.refusal("send", code, error))
        elif uncertain or code in SEQUENCE_LOST:
            lost = TransactionFatal(
                f"it is not known which messages of the transaction are stored: {error}; close "
                "this producer and make a new one, which aborts the transaction"
            )
            lost.__cause__ = error
            self.break_off(lost)
        else:
            failure = TransactionAbortable(
                f"a message of the transaction was not stored: {error}; call abort()"
            )
            failure.__cause__ = error
            self.fail(failure)

    # -- failures

    def fail(self, error: TransactionAbortable) -> None:
        """Fail the transaction: nothing more is sent in it."""
        if self.state.fail(error):
            logger.warning("transaction failed error=%s", error)
            self._sender.send_queue.refuse(error)
            self._sender.drop_unsent(_aborted(error))

    def break_off(self, error: TransactionError) -> None:
        """Make the producer unusable."""
        assert isinstance(error, TransactionFatal)
        if self.state.break_off(error):
            logger.error("producer unusable error=%s", error)
            self._sender.send_queue.refuse(error)
            self._sender.abort(error)

    @contextmanager
    def _break_off_on_fatal(self) -> Iterator[None]:
        try:
            yield
        except TransactionFatal as error:
            self.break_off(error)
            self.state.mark_raised()
            raise


def _not_in_transaction() -> InvalidTransactionState:
    return InvalidTransactionState(
        "a producer with a transactional.id sends only in transactions: call begin() first, or "
        "use `with producer.transaction():`"
    )


def _aborted(why: BaseException | None = None) -> TransactionAborted:
    return TransactionAborted(
        "not sent: its transaction was aborted" if why is None else f"not sent, because {why}"
    )


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
