"""The transactional ids of the partitions of `__transaction_state` that this broker leads.

    led here (14) --> loading (14) --> served --> another leads (16)

Invariants: nothing is answered, and no marker is sent, for a record that is not on every replica in
sync; that holds for what was found when loading, too. A partition that cannot be read stays
"loading". The coordinator's epoch is the partition's leader epoch: markers of an older one are
refused by the partitions. A request that waits, for the replicas or for a producer id, does so
parked: it holds no request slot.

A transaction that is prepared is ended by a task of its own: its markers are sent, then Complete*
is written. The task ends with the leadership; the next leader finds Prepare* and begins anew.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from zkbroker.coordinator.stored_log import PartitionLog, key_partition
from zkbroker.coordinator.transactions.counts import (
    TransactionCounts,
    TransactionFigures,
    by_state,
)
from zkbroker.coordinator.transactions.markers import Marker, MarkerSender, Outcome
from zkbroker.coordinator.transactions.store import TransactionStore
from zkbroker.coordinator.transactions.transaction import (
    PARTITION_BYTES,
    PREPARED,
    Decision,
    Transaction,
    size_of,
)
from zkbroker.errors import (
    ErrorCode,
    NotLeaderForPartition,
    ProtocolError,
    StorageError,
    ZkbrokerError,
)
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC, TransactionState
from zkbroker.runtime import Event, Park, Runtime, Task, finish_anyway, unparked
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_RETRY_S = 0.1
_ENDING_S = 0.1
"""How long a producer's next transaction waits for the end of the last one."""
_WARN_EVERY_MS = 10_000
_UNAVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of the coordinator; times in milliseconds.

    Args:
        max_timeout_ms: the longest time-out that a producer may ask for.
        abort_check_ms: between two looks for transactions that take too long.
        expiration_ms: after which an id that is not used is forgotten.
        expiration_check_ms: between two looks for those.
        metadata_bytes: memory for all ids with the partitions of their transactions, about.
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
    """What a producer is told: an error, or who it is."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


class LedPartition(Protocol):
    """A partition of `__transaction_state` that is led here."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def term(self) -> int: ...


class _Coordinated:
    """The transactional ids of one partition."""

    def __init__(self, number: int, partition: LedPartition, store: TransactionStore) -> None:
        self.number = number
        self.partition = partition
        self.term = partition.term
        self.store = store
        self.transactions: dict[str, Transaction] = {}
        self.size_bytes = 0
        """About how much memory the ids take, with the partitions of their transactions."""
        self.loaded = False
        self.ending: dict[str, Event] = {}
        """Set when a transaction that is decided has ended, or will not be ended here."""


class TransactionCoordinator:
    """Coordinates transactions.

    Args:
        settings: see there.
        runtime: for its tasks.
        partition_count: how many partitions `__transaction_state` has.
        led_here: whether this broker is said to lead a partition of it. Others may send clients
            here a moment before `lead`.
        new_producer_id: returns an id that was never used; it may wait for ZooKeeper.
        markers: sends markers.
        wall_ms: the time of day.
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
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._partition_count = partition_count
        self._led_here = led_here
        self._new_producer_id = new_producer_id
        self._markers = markers
        self._wall_ms = wall_ms
        self._partitions: dict[int, _Coordinated] = {}
        self._left: set[int] = set()
        self._counts = TransactionCounts()
        self._appends_retried = 0
        self._refused_ms = 0
        self._closed = runtime.event()
        self._tasks: list[Task] = []

    # -- life cycle

    def start(self) -> None:
        """Begin to look for transactions that take too long, and for ids that are not used."""
        settings = self._settings
        self._tasks = [
            self._runtime.spawn(
                self._repeat, self.abort_timed_out, settings.abort_check_ms, name="txn-timeouts"
            ),
            self._runtime.spawn(
                self._repeat, self.expire, settings.expiration_check_ms, name="txn-expiration"
            ),
        ]

    def close(self, timeout_s: float = 5.0) -> None:
        """Coordinate nothing any more; nothing is written afterwards."""
        self._closed.set()
        for number in list(self._partitions):
            self.leave(number)
        self._markers.close()
        for task in self._tasks:
            task.join(timeout_s)

    def lead(self, number: int, partition: LedPartition, log: PartitionLog) -> None:
        """Coordinate the ids of a partition from now on; it is loaded in a task of its own."""
        known = self._partitions.get(number)
        if known is not None and known.partition is partition and known.term == partition.term:
            return  # the same leadership under another epoch: what is known stays true
        coordinated = _Coordinated(number, partition, TransactionStore(log, self._settings.wait_s))
        self._partitions[number] = coordinated
        self._left.discard(number)
        name = f"load-{TRANSACTION_TOPIC}-{number}"
        self._runtime.spawn(self._load, coordinated, name=name)

    def leave(self, number: int) -> None:
        """Coordinate the ids of a partition no longer; the next leader goes on."""
        self._partitions.pop(number, None)
        self._left.add(number)

    def _load(self, coordinated: _Coordinated) -> None:
        while self._holds(coordinated):
            try:
                found = coordinated.store.load(lambda: self._runtime.sleep(0))
            except NotLeaderForPartition as error:
                # The next leader loads it, or this broker does when it leads again.
                logger.info("loading ends partition=%d reason=%s", coordinated.number, error)
                return
            except (ProtocolError, StorageError) as error:
                logger.error(  # noqa: TRY400 - the reason is in the message
                    "%s not loaded partition=%d reason=%s",
                    TRANSACTION_TOPIC,
                    coordinated.number,
                    error,
                )
                return
            try:
                # What is not on the replicas yet may still be lost with this broker.
                coordinated.store.wait_replicated(coordinated.store.log_end_offset)
                break
            except ZkbrokerError as error:
                logger.info("loading waits partition=%d reason=%s", coordinated.number, error)
                self._runtime.sleep(_RETRY_S)
        if not self._holds(coordinated):
            return
        coordinated.transactions = {name: Transaction(each) for name, each in found.items()}
        coordinated.size_bytes = sum(size_of(name, each) for name, each in found.items())
        coordinated.loaded = True
        logger.info(
            "%s loaded partition=%d ids=%d epoch=%d",
            TRANSACTION_TOPIC,
            coordinated.number,
            len(found),
            coordinated.partition.leader_epoch,
        )
        for transactional_id, transaction in list(coordinated.transactions.items()):
            if found[transactional_id].state in PREPARED:
                self._finish(coordinated, transactional_id, transaction)

    def _holds(self, coordinated: _Coordinated) -> bool:
        return self._partitions.get(coordinated.number) is coordinated

    def figures(self) -> TransactionFigures:
        """Return what operators watch, as it is now; others get their turn meanwhile."""
        states, oldest_ms = by_state((), 0)
        for coordinated in list(self._partitions.values()):
            found, oldest_here_ms = by_state(coordinated.transactions.values(), self._wall_ms())
            for state, count in found.items():
                states[state] += count
            oldest_ms = max(oldest_ms, oldest_here_ms)
            self._runtime.sleep(0)
        return TransactionFigures(
            states=states,
            oldest_open_ms=oldest_ms,
            counts=replace(self._counts),
            markers_queued=self._markers.queued,
            markers_unknown_destination=self._markers.unknown_destination,
            marker_retries=self._markers.retries,
            appends_retried=self._appends_retried,
        )

    # -- what producers ask for

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, park: Park = unparked
    ) -> InitResult:
        """Have a new instance take over a transactional id, and fence the one before."""
        if not transactional_id:
            return InitResult(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_producer_id: int | None = None
        while True:
            coordinated, error = self._find(transactional_id)
            if coordinated is None:
                return InitResult(error)
            transaction = coordinated.transactions.get(transactional_id) or Transaction()
            if not transaction.needs_producer_id or new_producer_id is not None:
                break
            # Asking takes time, in which anything may happen: look again then.
            with park(finish_anyway):
                new_producer_id = self._new_producer_id()
        if transaction.current is None and not self._fits(
            transactional_id, size_of(transactional_id)
        ):
            return InitResult(ErrorCode.POLICY_VIOLATION)
        coordinated.transactions[transactional_id] = transaction
        decision = transaction.init(timeout_ms, self._wall_ms(), new_producer_id)
        error = self._carry_out(coordinated, transactional_id, transaction, decision, park)
        if error is not ErrorCode.NONE or decision.write is None:
            if decision.write is not None and error is decision.answer:
                self._counts.fenced += 1
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
        """Take partitions into a producer's transaction."""
        coordinated, transaction, error = self._find_transaction(transactional_id)
        if coordinated is None or transaction is None:
            return error
        partitions = frozenset(partitions)
        known = frozenset() if transaction.current is None else transaction.current.partitions
        if not self._fits(transactional_id, len(partitions - known) * PARTITION_BYTES):
            return ErrorCode.POLICY_VIOLATION
        decision = transaction.add(producer_id, epoch, partitions, self._wall_ms())
        if decision.answer is ErrorCode.CONCURRENT_TRANSACTIONS:
            # Its last transaction is about to end; sent away, a producer comes back much later.
            ending = coordinated.ending.get(transactional_id)
            if ending is not None:
                with park(finish_anyway):
                    ending.wait(_ENDING_S)
                coordinated, transaction, error = self._find_transaction(transactional_id)
                if coordinated is None or transaction is None:
                    return error
                decision = transaction.add(producer_id, epoch, partitions, self._wall_ms())
        return self._carry_out(coordinated, transactional_id, transaction, decision, park)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        park: Park = unparked,
    ) -> ErrorCode:
        """Commit or abort; answered when that is decided for good, before the markers are sent."""
        coordinated, transaction, error = self._find_transaction(transactional_id)
        if coordinated is None or transaction is None:
            return error
        decision = transaction.end(producer_id, epoch, commit=commit, now_ms=self._wall_ms())
        return self._carry_out(coordinated, transactional_id, transaction, decision, park)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[PartitionKey],
    ) -> ErrorCode:
        """Say whether messages of a transaction may be written to partitions."""
        coordinated, transaction, error = self._find_transaction(transactional_id)
        if coordinated is None or transaction is None:
            return error
        return transaction.verify(producer_id, epoch, partitions)

    def _fits(self, transactional_id: str, more: int) -> bool:
        used = sum(each.size_bytes for each in self._partitions.values())
        if not more or used + more <= self._settings.metadata_bytes:
            return True
        now_ms = self._wall_ms()
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

    def _find(self, transactional_id: str) -> tuple[_Coordinated | None, ErrorCode]:
        number = key_partition(transactional_id, self._partition_count())
        coordinated = self._partitions.get(number)
        if coordinated is None:
            if number not in self._left and self._led_here(number):
                return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return None, ErrorCode.NOT_COORDINATOR
        if not coordinated.loaded:
            return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return coordinated, ErrorCode.NONE

    def _find_transaction(
        self, transactional_id: str
    ) -> tuple[_Coordinated | None, Transaction | None, ErrorCode]:
        if not transactional_id:
            return None, None, ErrorCode.INVALID_REQUEST
        coordinated, error = self._find(transactional_id)
        if coordinated is None:
            return None, None, error
        transaction = coordinated.transactions.get(transactional_id)
        if transaction is None:
            return coordinated, None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return coordinated, transaction, ErrorCode.NONE

    # -- transitions

    def _carry_out(
        self,
        coordinated: _Coordinated,
        transactional_id: str,
        transaction: Transaction,
        decision: Decision,
        park: Park = unparked,
    ) -> ErrorCode:
        """Write what was decided; returns what is answered."""
        target = decision.write
        if target is None:
            return decision.answer
        gone = target.state is TransactionState.DEAD
        try:
            coordinated.store.write(
                transactional_id, None if gone else target, self._wall_ms(), park
            )
        except ZkbrokerError as error:
            transaction.failed()
            self._counts.failed_writes += 1
            if transaction.current is None:
                coordinated.transactions.pop(transactional_id, None)
            logger.warning(
                "transition not written transactional_id=%s state=%s error=%s",
                transactional_id,
                target.state.name,
                error,
            )
            return write_error(error)
        except BaseException:
            transaction.failed()
            if transaction.current is None:
                coordinated.transactions.pop(transactional_id, None)
            raise
        if not self._holds(coordinated):
            return ErrorCode.NOT_COORDINATOR
        self._count(transaction, target.state)
        before = transaction.current
        transaction.written()
        coordinated.size_bytes += 0 if gone else size_of(transactional_id, target)
        if before is not None:
            coordinated.size_bytes -= size_of(transactional_id, before)
        if gone:
            coordinated.transactions.pop(transactional_id, None)
        if target.state in PREPARED:
            self._finish(coordinated, transactional_id, transaction)
        return decision.answer

    def _count(self, before: Transaction, written: TransactionState) -> None:
        """Count a transition that is about to be taken for true."""
        counts, current = self._counts, before.current
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

    def _finish(
        self, coordinated: _Coordinated, transactional_id: str, transaction: Transaction
    ) -> None:
        coordinated.ending[transactional_id] = self._runtime.event()
        self._runtime.spawn(
            self._end,
            coordinated,
            transactional_id,
            transaction,
            name=f"end-{transactional_id}",
        )

    def _end(
        self, coordinated: _Coordinated, transactional_id: str, transaction: Transaction
    ) -> None:
        ending = coordinated.ending[transactional_id]
        try:
            self._send_and_complete(coordinated, transactional_id, transaction)
        finally:
            if coordinated.ending.get(transactional_id) is ending:
                del coordinated.ending[transactional_id]
            ending.set()

    def _send_and_complete(
        self, coordinated: _Coordinated, transactional_id: str, transaction: Transaction
    ) -> None:
        prepared = transaction.current
        if prepared is None:
            return

        def epoch() -> int | None:
            return coordinated.partition.leader_epoch if self._holds(coordinated) else None

        marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            prepared.committing,
            coordinated.partition.leader_epoch,
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
        while outcome is Outcome.DONE and self._holds(coordinated):
            decision = transaction.complete(self._wall_ms())
            error = self._carry_out(coordinated, transactional_id, transaction, decision)
            if error not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR):
                return
            self._appends_retried += 1
            self._runtime.sleep(_RETRY_S)
            self._appends_retried -= 1

    # -- what is done unasked

    def _repeat(self, look: Callable[[], object], every_ms: int) -> None:
        while not self._closed.wait(every_ms / 1000):
            try:
                look()
            except Exception:
                # Were this the last look, no transaction would time out any more.
                logger.exception("look at transactions failed, the next one follows")

    def abort_timed_out(self) -> int:
        """Abort the transactions that take longer than they may; returns how many."""
        count = self._sweep("timed out", lambda each: each.time_out(self._wall_ms()))
        self._counts.timeouts += count
        return count

    def expire(self) -> int:
        """Forget the ids that were not used for long; returns how many."""
        after_ms = self._settings.expiration_ms
        return self._sweep("expired", lambda each: each.expire(self._wall_ms(), after_ms))

    def _sweep(self, what: str, decide: Callable[[Transaction], Decision]) -> int:
        count = 0
        for coordinated in list(self._partitions.values()):
            for transactional_id, transaction in list(coordinated.transactions.items()):
                if not self._holds(coordinated):
                    break
                decision = decide(transaction)
                if decision.write is None:
                    continue
                error = self._carry_out(coordinated, transactional_id, transaction, decision)
                logger.info("transactional_id=%s %s code=%s", transactional_id, what, error.name)
                if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
                    break  # the partition takes no records now: the next look tries again
                count += 1
            self._runtime.sleep(0)
        return count


def write_error(error: ZkbrokerError) -> ErrorCode:
    """Return what a producer is told when a record was not written."""
    if isinstance(error, StorageError):
        return ErrorCode.NOT_COORDINATOR
    code = error.code if isinstance(error, ProtocolError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in (ErrorCode.NOT_LEADER_FOR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR
