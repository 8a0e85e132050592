"""Verifies with the coordinator that messages of a transaction may be written here.

A batch that arrives after its transaction's marker, or for a partition that was never added, would
open a transaction that never ends: readers of committed messages would stop before it, and the log
could not be cleaned after it. So a partition opens a transaction only while the coordinator has
this producer, epoch and partition in an ongoing one. The check is made once for each transaction
and partition, by this broker's own coordinator or over the network by the one that leads the id's
partition of `__transaction_state`; an open transaction is not checked again. A marker written
between the check and the append revokes the permission (`zkbroker.log.producers`).

    47                          the producer was replaced
    48                          no such transaction, or it does not have the partition, or it ends
    19, which producers retry   the coordinator cannot be asked, or is loading; nothing was written

With genuine brokers of 2.1 in the cluster (`partition.state.znodes=persistent`) there is no check:
they could not answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from zkbroker.broker.view import NO_LEADER, ClusterView
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.coordinator.transactions import TransactionCoordinator
from zkbroker.coordinator.transactions.courier import Courier
from zkbroker.coordinator.transactions.transaction import by_topic
from zkbroker.errors import ErrorCode, NotEnoughReplicas, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import VerifyTransactionRequest, VerifyTransactionResponse
from zkbroker.protocol.messages.verify_transaction import VerifiedTransaction
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.runtime import Park, Runtime, finish_anyway, unparked
from zkbroker.types import PartitionKey

_REFUSED = {
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_REQUEST: ErrorCode.INVALID_TXN_STATE,
}


@dataclass(eq=False)
class TransactionVerifier:
    """Asks coordinators.

    Args:
        coordinator: this broker's own.
        view: the cluster.
        send: sends a request to another broker and returns its answer.
        runtime: for the tasks that send.
        enabled: False to accept everything without a check.
    """

    coordinator: TransactionCoordinator
    view: ClusterView
    send: Callable[[int, VerifyTransactionRequest], VerifyTransactionResponse]
    _: KW_ONLY
    runtime: Runtime
    enabled: bool = True
    _couriers: dict[int, Courier[VerifiedTransaction, int]] = field(
        default_factory=dict, init=False
    )

    def check(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[PartitionKey],
        park: Park = unparked,
    ) -> None:
        """Return if messages of a transaction may be written to partitions, else raise.

        `park` is entered while another broker is asked.

        Raises:
            ProtocolError: they may not (47, 48), or the coordinator cannot be asked now (19).
        """
        if not self.enabled:
            return
        try:
            code = self._ask(transactional_id, producer_id, producer_epoch, partitions, park)
        except ZkbrokerError as error:
            raise NotEnoughReplicas(
                f"the transaction's coordinator does not answer: {error}"
            ) from error
        if code is ErrorCode.NONE:
            return
        text = f"the coordinator of {transactional_id!r} says {code.name} of {list(partitions)}"
        if code in _REFUSED:
            raise ProtocolError(text, code=_REFUSED[code])
        raise NotEnoughReplicas(text)

    def close(self) -> None:
        """Stop verifying; close the connections."""
        for courier in self._couriers.values():
            courier.close()

    def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[PartitionKey],
        park: Park,
    ) -> ErrorCode:
        assignment = self.view.assignment(TRANSACTION_TOPIC)
        if not assignment:
            # The topic may be so new that this broker does not know it yet.
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = key_partition(transactional_id, len(assignment))
        leader, _ = self.view.leader(TRANSACTION_TOPIC, number)
        if leader == NO_LEADER:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if leader == self.view.own.id:
            return self.coordinator.verify(
                transactional_id, producer_id, producer_epoch, partitions
            )
        asked = VerifiedTransaction(
            transactional_id, producer_id, producer_epoch, by_topic(partitions)
        )
        ticket = self._courier(leader).submit(asked)
        with park(finish_anyway):
            return ErrorCode(ticket.result())

    def _courier(self, broker: int) -> Courier[VerifiedTransaction, int]:
        courier = self._couriers.get(broker)
        if courier is None:

            def send(asked: Sequence[VerifiedTransaction]) -> list[int]:
                answer = self.send(broker, VerifyTransactionRequest(list(asked)))
                return [each.error_code for each in answer.results]

            courier = self._couriers[broker] = Courier(
                f"verify-at-{broker}", send, runtime=self.runtime
            )
        return courier
