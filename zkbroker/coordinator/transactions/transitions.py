"""Transitions of transactional ids: each is written, then carried out.

Invariants: a transition takes effect once its record is on every replica in sync. A separate task
ends each prepared transaction: it sends the markers, then writes Complete*. The task ends with the
leadership; the next leader finds Prepare* and ends the transaction instead.
"""

import logging

from zkbroker.coordinator.hosted import HostedPartitions
from zkbroker.coordinator.stored_log import write_error
from zkbroker.coordinator.transactions.counts import TransactionCounts
from zkbroker.coordinator.transactions.markers import MarkerSender, Outcome, TransactionMarkers
from zkbroker.coordinator.transactions.partition import TransactionPartition
from zkbroker.coordinator.transactions.transaction import (
    PREPARED,
    Decision,
    Transaction,
    size_of,
)
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.protocol.transaction_topic import TransactionState
from zkbroker.runtime import Park, Runtime, unparked
from zkbroker.runtime.repeated_lines import RepeatedLines

logger = logging.getLogger(__name__)

RETRY_S = 0.1
_IN_DOUBT = {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
_FINAL = frozenset({ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE})
"""Errors after which Complete* was written, or must not be written here.

NOT_COORDINATOR (16) is not among them: it is a flush that failed, which may pass, or the end of the
leadership, after which this broker holds the partition no longer.
"""


class Transitions:
    """Writes transitions, and ends prepared transactions.

    Args:
        hosted: the partitions that are led here.
        markers: sends markers.
        runtime: for the tasks that end transactions, and its clock.
    """

    def __init__(
        self,
        hosted: HostedPartitions[TransactionPartition],
        markers: MarkerSender,
        *,
        runtime: Runtime,
    ) -> None:
        self._hosted = hosted
        self._markers = markers
        self._runtime = runtime
        self._now_ms = runtime.now_ms
        self.counts = TransactionCounts()
        self._failures = RepeatedLines(clock=lambda: runtime.clock_ms() / 1000)
        self.appends_retried = 0
        """Transactions whose Complete* record is being written again."""

    def carry_out(
        self,
        partition: TransactionPartition,
        transactional_id: str,
        transaction: Transaction,
        decision: Decision,
        park: Park = unparked,
    ) -> ErrorCode:
        """Write a decision; returns the error code of the answer."""
        target = decision.write
        if target is None:
            return decision.answer
        gone = target.state is TransactionState.DEAD
        try:
            partition.store.write(transactional_id, None if gone else target, self._now_ms(), park)
        except ZkbrokerError as error:
            transaction.failed()
            self.counts.failed_writes += 1
            if transaction.current is None:
                partition.transactions.pop(transactional_id, None)
            left_out = self._failures.admit((transactional_id, target.state))
            if left_out is not None:
                logger.warning(
                    "transition not written transactional_id=%s state=%s left_out=%d error=%s",
                    transactional_id,
                    target.state.name,
                    left_out,
                    error,
                )
            return write_error(error, _IN_DOUBT)
        except BaseException:
            transaction.failed()
            if transaction.current is None:
                partition.transactions.pop(transactional_id, None)
            raise
        if not self._hosted.holds(partition):
            return ErrorCode.NOT_COORDINATOR
        self._count(transaction, target.state)
        before = transaction.current
        transaction.written()
        partition.size_bytes += 0 if gone else size_of(transactional_id, target)
        if before is not None:
            partition.size_bytes -= size_of(transactional_id, before)
        if gone:
            partition.transactions.pop(transactional_id, None)
        if target.state in PREPARED:
            self.finish(partition, transactional_id, transaction)
        return decision.answer

    def _count(self, before: Transaction, written: TransactionState) -> None:
        """Count a transition that is about to take effect."""
        counts, current = self.counts, before.current
        if written is TransactionState.COMPLETE_COMMIT:
            counts.commits += 1
        elif written is TransactionState.COMPLETE_ABORT:
            counts.aborts += 1
        elif written is TransactionState.DEAD:
            counts.expired += 1
        elif written is TransactionState.ONGOING and (
            current is None or current.state is not TransactionState.ONGOING
        ):
            counts.begun += 1

    def finish(
        self, partition: TransactionPartition, transactional_id: str, transaction: Transaction
    ) -> None:
        """End a prepared transaction in a separate task."""
        partition.ending[transactional_id] = self._runtime.event()
        self._runtime.spawn(
            self._end,
            partition,
            transactional_id,
            transaction,
            name=f"end-{transactional_id}",
        )

    def _end(
        self, partition: TransactionPartition, transactional_id: str, transaction: Transaction
    ) -> None:
        ending = partition.ending[transactional_id]
        try:
            self._send_and_complete(partition, transactional_id, transaction)
        finally:
            if partition.ending.get(transactional_id) is ending:
                del partition.ending[transactional_id]
            ending.set()

    def _send_and_complete(
        self, partition: TransactionPartition, transactional_id: str, transaction: Transaction
    ) -> None:
        prepared = transaction.current
        if prepared is None:
            return

        def epoch() -> int | None:
            return partition.leadership.leader_epoch if self._hosted.holds(partition) else None

        marker = TransactionMarkers(
            prepared.producer_id,
            prepared.producer_epoch,
            prepared.committing,
            partition.leadership.leader_epoch,
            tuple(prepared.partitions),
        )
        outcome = self._markers.send(marker, epoch)
        if outcome is Outcome.FENCED:
            logger.error(
                "transaction not completed transactional_id=%s producer=%d epoch=%d: %s",
                transactional_id,
                prepared.producer_id,
                prepared.producer_epoch,
                outcome.value,
            )
        while outcome is Outcome.DONE and self._hosted.holds(partition):
            decision = transaction.complete(self._now_ms())
            error = self.carry_out(partition, transactional_id, transaction, decision)
            if error in _FINAL:
                return
            self.appends_retried += 1
            self._runtime.sleep(RETRY_S)
            self.appends_retried -= 1
