"""Producer ids and sequence numbers of an idempotent producer.

Invariants:
- Messages of one partition under one producer id are numbered without gaps in the order in which
  they are sent, and a batch keeps its numbers through every retry, so that a broker stores it once.
- In transactions the producer id is the one that their coordinator gave, and numbers begin again
  only where nothing of the present transaction is stored.
- Numbers are given up only for batches that are known not to be stored: refused ones. A partition
  whose numbers have a gap, because a batch was given up or the broker lost stored ones, continues
  under a new producer id once no batch numbered under the old one is open.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from zkbroker.client import Cluster
from zkbroker.errors import UnsupportedVersion, ZkbrokerError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.producer.accumulator import PartitionQueue
from zkbroker.producer.batch import Batch, next_sequence
from zkbroker.producer.outcomes import may_pass
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class SequenceNumbers:
    """Gives batches their numbers; owned by the sender's loop.

    Args:
        cluster: a broker of it gives the producer ids.
        runtime: spawns the requests for them.
        backoff_s: pause after a failed request.
        post: runs a function in the sender's loop.
        refused: called with the error where brokers give no producer ids at all.
    """

    cluster: Cluster
    runtime: Runtime
    backoff_s: float
    post: Callable[..., None]
    refused: Callable[[BaseException], None]
    producer_id: int = field(default=-1, init=False)
    producer_epoch: int = field(default=-1, init=False)
    _asking: bool = field(default=False, init=False)
    _not_before: float = field(default=0.0, init=False)
    _identified: bool = field(default=False, init=False)

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Take the producer id and epoch from the coordinator of a transactional id, for good."""
        self._identified = True
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def assign(self, queue: PartitionQueue, batch: Batch, now: float) -> bool:
        """Number a batch before it is sent; False when it has to wait for a producer id.

        Args:
            queue: of its partition.
            batch: the first of the queue.
            now: `time.monotonic()`.
        """
        if batch.numbered:
            return True
        if queue.renumber:
            if queue.in_flight:
                return False
            if queue.producer_id == self.producer_id and not self._identified:
                self.ask(now)
                return False
            # Later batches were numbered after a gap and refused; none of them is stored.
            for each in queue.batches:
                each.number(-1, -1, -1)
            queue.renumber = False
            queue.producer_id = -1
        if queue.producer_id < 0:
            if self.producer_id < 0:
                self.ask(now)
                return False
            queue.producer_id = self.producer_id
            queue.producer_epoch = self.producer_epoch
            queue.established = False
            queue.next_sequence = queue.stored_sequence = queue.began_at = 0
        batch.number(queue.producer_id, queue.producer_epoch, queue.next_sequence)
        queue.next_sequence = next_sequence(queue.next_sequence, len(batch))
        return True

    def ask(self, now: float) -> None:
        """Ask a broker for a producer id, unless a request is under way."""
        if not self._asking and now >= self._not_before:
            self._asking = True
            self.runtime.spawn(self._request, name="producer-id")

    def next_deadline(self, now: float) -> float | None:
        """Return when the next request may be sent; None where no batch waits for it."""
        return self._not_before if self._not_before > now else None

    def _request(self) -> None:
        try:
            response = self.cluster.ask_any(_producer_id)
        except ZkbrokerError as error:
            self.post(self._failed, error)
        else:
            self.post(self._received, response.producer_id, response.producer_epoch)

    def _received(self, producer_id: int, producer_epoch: int) -> None:
        self._asking = False
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        logger.info("producer id received id=%d epoch=%d", producer_id, producer_epoch)

    def _failed(self, error: ZkbrokerError) -> None:
        self._asking = False
        self._not_before = time.monotonic() + self.backoff_s
        if may_pass(error):
            logger.warning("no producer id yet error=%s", error)
        else:
            self.refused(error)


def _producer_id(connection: BrokerConnection, wait_s: float) -> InitProducerIdResponse:
    if ApiKey.INIT_PRODUCER_ID not in connection.versions:
        raise UnsupportedVersion(
            f"the broker at {connection.address} gives no producer ids: unset "
            "enable.idempotence, or use brokers of 0.11 or later"
        )
    response: InitProducerIdResponse = connection.request(InitProducerIdRequest(), timeout_s=wait_s)
    if response.error_code:
        raise protocol_error(response.error_code, "no producer id")
    return response
