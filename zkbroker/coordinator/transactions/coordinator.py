"""The transactional ids of the partitions of `__transaction_state` that this broker leads.

Invariants: no answer and no marker is sent for a record that is not on every replica in sync; this
includes the records of a load. The coordinator's epoch is the partition's leader epoch: partitions
refuse markers of an older one. A request waits parked, for the replicas or for a producer id: it
holds no request slot.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from zkbroker.coordinator.hosted import HostedPartitions
from zkbroker.coordinator.stored_log import PartitionLog
from zkbroker.coordinator.transactions.counts import TransactionFigures, by_state
from zkbroker.coordinator.transactions.markers import MarkerSender
from zkbroker.coordinator.transactions.partition import LeaderEpochHolder, TransactionPartition
from zkbroker.coordinator.transactions.store import TransactionStore
from zkbroker.coordinator.transactions.transaction import (
    PARTITION_BYTES,
    PREPARED,
    Decision,
    Transaction,
    size_of,
)
from zkbroker.coordinator.transactions.transitions import RETRY_S, Transitions
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.runtime import OwnerLoop, Park, Runtime, finish_anyway, unparked
from zkbroker.runtime.repeated_lines import RepeatedLines
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_ENDING_S = 0.1
"""How long a producer's next transaction waits for the end of the last one."""
_WARN_EVERY_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of the coordinator; times in milliseconds.

    Args:
        max_timeout_ms: the longest time-out that a producer may ask for.
        abort_check_ms: between two checks for transactions that take too long.
        expiration_ms: after which an unused id is forgotten.
        expiration_check_ms: between two checks for unused ids.
        metadata_bytes: approximate memory for all ids with the partitions of their transactions.
        wait_s: how long a record may take to be on every replica in sync.
    """

    max_timeout_ms: int = 900_000
    abort_check_ms: int = 60_000
    expiration_ms: int = 604_800_000
    expiration_check_ms: int = 3_600_000
    metadata_bytes: int = 256 * 1024**2
    wait_s: float = 5.0


@dataclass(frozen=True, slots=True)
class InitResult:
    """The answer to a producer: an error, or its id and epoch."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


class TransactionCoordinator:
    """Coordinates transactions.

    Args:
        settings: of the coordinator.
        runtime: for its tasks, and its clock.
        partition_count: how many partitions `__transaction_state` has.
        led_here: see `HostedPartitions`.
        new_producer_id: returns an id that was never used; it may wait for ZooKeeper.
        markers: sends markers.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        runtime: Runtime,
        partition_count: Callable[[], int],
        led_here: Callable[[int], bool],
        new_producer_id: Callable[[], int],
        markers: MarkerSender,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._new_producer_id = new_producer_id
        self._markers = markers
        self._now_ms = runtime.now_ms
        self._hosted: HostedPartitions[TransactionPartition] = HostedPartitions(
            TRANSACTION_TOPIC,
            self._read,
            self._serve,
            runtime=runtime,
            partition_count=partition_count,
            led_here=led_here,
        )
        self._transitions = Transitions(self._hosted, markers, runtime=runtime)
        self._refused_ms = 0
        self._waits = RepeatedLines(clock=lambda: runtime.clock_ms() / 1000)
        abort_s, expire_s = settings.abort_check_ms / 1000, settings.expiration_check_ms / 1000
        self._timeouts = OwnerLoop(
            runtime, self._check_timeouts, name="txn-timeouts", logger=logger, retry_s=abort_s
        )
        self._expiration = OwnerLoop(
            runtime, self._check_expiration, name="txn-expiration", logger=logger, retry_s=expire_s
        )

    # -- life cycle

    def start(self) -> None:
        """Begin to abort transactions that take too long, and to remove unused ids."""
        self._timeouts.start(self._settings.abort_check_ms / 1000)
        self._expiration.start(self._settings.expiration_check_ms / 1000)

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop coordinating; nothing is written afterwards."""
        for partition in self._hosted.all():
            self.release(partition.number)
        self._markers.close()
        self._timeouts.close(timeout_s)
        self._expiration.close(timeout_s)

    def host(self, number: int, leadership: LeaderEpochHolder, log: PartitionLog) -> None:
        """Coordinate the ids of a partition from now on; a separate task loads it."""
        known = self._hosted.get(number)
        if known is not None and known.leadership is leadership:
            return  # the same leadership under another epoch: the loaded state stays valid
        store = TransactionStore(log, self._settings.wait_s)
        self._hosted.host(TransactionPartition(number, leadership, store))

    def release(self, number: int) -> None:
        """Stop coordinating the ids of a partition; the next leader continues."""
        self._hosted.release(number)

    def _read(self, partition: TransactionPartition) -> int:
        """Load a partition, and wait until all its records are on every replica in sync.

        Before that, a record could still be lost with this broker.
        """
        found = partition.store.load(lambda: self._runtime.sleep(0))
        while self._hosted.holds(partition):
            try:
                partition.store.wait_replicated()
                break
            except ZkbrokerError as error:
                left_out = self._waits.admit(partition.number)
                if left_out is not None:
                    logger.info(
                        "loading waits partition=%d left_out=%d reason=%s",
                        partition.number,
                        left_out,
                        error,
                    )
                self._runtime.sleep(RETRY_S)
        partition.transactions = {name: Transaction(state) for name, state in found.items()}
        partition.size_bytes = sum(size_of(name, state) for name, state in found.items())
        return len(found)

    def _serve(self, partition: TransactionPartition) -> None:
        for transactional_id, transaction in list(partition.transactions.items()):
            if transaction.current is not None and transaction.current.state in PREPARED:
                self._transitions.finish(partition, transactional_id, transaction)

    def figures(self) -> TransactionFigures:
        """Return the present metrics; other tasks get their turn meanwhile."""
        states, oldest_ms = by_state((), 0)
        for partition in self._hosted.all():
            found, oldest_here_ms = by_state(partition.transactions.values(), self._now_ms())
            for state, count in found.items():
                states[state] += count
            oldest_ms = max(oldest_ms, oldest_here_ms)
            self._runtime.sleep(0)
        return TransactionFigures(
            states=states,
            oldest_open_ms=oldest_ms,
            counts=replace(self._transitions.counts),
            markers_queued=self._markers.queued,
            markers_unknown_destination=self._markers.unknown_destination,
            marker_retries=self._markers.retries,
            appends_retried=self._transitions.appends_retried,
        )

    # -- requests of producers

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, park: Park = unparked
    ) -> InitResult:
        """Let a new producer take over a transactional id, and fence the previous one."""
        if not transactional_id:
            return InitResult(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_producer_id: int | None = None
        while True:
            partition, error = self._hosted.find(transactional_id)
            if partition is None:
                return InitResult(error)
            transaction = partition.transactions.get(transactional_id) or Transaction()
            if not transaction.needs_producer_id or new_producer_id is not None:
                break
            # The state may change while a new id is requested: check it again afterwards.
            with park(finish_anyway):
                new_producer_id = self._new_producer_id()
        if transaction.current is None and not self._fits(
            transactional_id, size_of(transactional_id)
        ):
            return InitResult(ErrorCode.POLICY_VIOLATION)
        partition.transactions[transactional_id] = transaction
        decision = transaction.init(timeout_ms, self._now_ms(), new_producer_id)
        error = self._transitions.carry_out(
            partition, transactional_id, transaction, decision, park
        )
        if error is not ErrorCode.NONE or decision.write is None:
            if decision.write is not None and error is decision.answer:
                self._transitions.counts.fenced += 1
            return InitResult(error)
        return InitResult(error, decision.write.producer_id, decision.write.producer_epoch)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[PartitionKey],
        park: Park = unparked,
    ) -> ErrorCode:
        """Add partitions to a producer's transaction."""
        partition, transaction, error = self._find_transaction(transactional_id)
        if partition is None or transaction is None:
            return error
        partitions = frozenset(partitions)
        known = frozenset() if transaction.current is None else transaction.current.partitions
        if not self._fits(transactional_id, len(partitions - known) * PARTITION_BYTES):
            return ErrorCode.POLICY_VIOLATION
        decision = transaction.add(producer_id, epoch, partitions, self._now_ms())
        if decision.answer is ErrorCode.CONCURRENT_TRANSACTIONS:
            # Its last transaction is about to end; a refused producer would retry much later.
            ending = partition.ending.get(transactional_id)
            if ending is not None:
                with park(finish_anyway):
                    ending.wait(_ENDING_S)
                partition, transaction, error = self._find_transaction(transactional_id)
                if partition is None or transaction is None:
                    return error
                decision = transaction.add(producer_id, epoch, partitions, self._now_ms())
        return self._transitions.carry_out(partition, transactional_id, transaction, decision, park)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        park: Park = unparked,
    ) -> ErrorCode:
        """Commit or abort; returns once the decision is final, before the markers are sent."""
        partition, transaction, error = self._find_transaction(transactional_id)
        if partition is None or transaction is None:
            return error
        decision = transaction.end(producer_id, epoch, commit=commit, now_ms=self._now_ms())
        return self._transitions.carry_out(partition, transactional_id, transaction, decision, park)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[PartitionKey],
    ) -> ErrorCode:
        """Whether messages of a transaction may be written to partitions."""
        partition, transaction, error = self._find_transaction(transactional_id)
        if partition is None or transaction is None:
            return error
        return transaction.verify(producer_id, epoch, partitions)

    def _fits(self, transactional_id: str, more: int) -> bool:
        used = sum(each.size_bytes for each in self._hosted.all())
        if not more or used + more <= self._settings.metadata_bytes:
            return True
        now_ms = self._now_ms()
        if now_ms - self._refused_ms >= _WARN_EVERY_MS:
            self._refused_ms = now_ms
            logger.warning(
                "refused transactional_id=%s bytes=%d: transactional ids take %d bytes of "
                "transaction.metadata.max.bytes=%d",
                transactional_id[:100],
                more,
                used,
                self._settings.metadata_bytes,
            )
        return False

    def _find_transaction(
        self, transactional_id: str
    ) -> tuple[TransactionPartition | None, Transaction | None, ErrorCode]:
        if not transactional_id:
            return None, None, ErrorCode.INVALID_REQUEST
        partition, error = self._hosted.find(transactional_id)
        if partition is None:
            return None, None, error
        transaction = partition.transactions.get(transactional_id)
        if transaction is None:
            return partition, None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return partition, transaction, ErrorCode.NONE

    # -- periodic work

    def _check_timeouts(self) -> float:
        self.abort_timed_out()
        return self._settings.abort_check_ms / 1000

    def _check_expiration(self) -> float:
        self.expire()
        return self._settings.expiration_check_ms / 1000

    def abort_timed_out(self) -> int:
        """Abort the transactions that exceeded their time-out; returns how many."""
        count = self._sweep("timed out", lambda each: each.time_out(self._now_ms()))
        self._transitions.counts.timeouts += count
        return count

    def expire(self) -> int:
        """Remove the ids that have been unused for too long; returns how many."""
        after_ms = self._settings.expiration_ms
        return self._sweep("expired", lambda each: each.expire(self._now_ms(), after_ms))

    def _sweep(self, what: str, decide: Callable[[Transaction], Decision]) -> int:
        count = 0
        for partition in self._hosted.all():
            for transactional_id, transaction in list(partition.transactions.items()):
                if not self._hosted.holds(partition):
                    break
                decision = decide(transaction)
                if decision.write is None:
                    continue
                error = self._transitions.carry_out(
                    partition, transactional_id, transaction, decision
                )
                logger.info("transactional_id=%s %s code=%s", transactional_id, what, error.name)
                if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
                    break  # the partition accepts no records now: the next check retries
                count += 1
            self._runtime.sleep(0)
        return count
