"""Markers: they end a transaction in each of its partitions.

    0, 43 (the format holds no markers), topic deleted     done
    47, 52                                                 a newer producer epoch or coordinator
                                                           exists: given up
    any other code, or no answer                           sent again, to the leader of that time

Invariant: a transaction is complete only when every partition of it has its marker, or cannot hold
one. The number of attempts is not limited: markers are sent as long as this broker coordinates the
transaction.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from zkbroker.coordinator.transactions.courier import Courier, Ticket
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class TransactionMarkers:
    """The markers of one transaction, for one request."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    partitions: tuple[PartitionKey, ...]


Codes = Mapping[PartitionKey, int]
"""A broker's answer, by partition."""


class Outcome(Enum):
    """The outcome of sending."""

    DONE = "every partition has its marker"
    FENCED = "a newer producer epoch or coordinator exists"
    ENDED = "this broker no longer coordinates the transaction"


class MarkerSender:
    """Sends markers to the leaders of partitions.

    Args:
        leader_of: returns the broker that leads a partition, -1 if there is none, None if the topic
            was deleted.
        send: sends markers to a broker and returns its answers, in order.
        runtime: to wait with.
        backoff_ms: between two attempts.
    """

    def __init__(
        self,
        leader_of: Callable[[str, int], int | None],
        send: Callable[[int, Sequence[TransactionMarkers]], Sequence[Codes]],
        *,
        runtime: Runtime,
        backoff_ms: int = 100,
    ) -> None:
        self._leader_of = leader_of
        self._send = send
        self._runtime = runtime
        self._backoff_s = backoff_ms / 1000
        self._couriers: dict[int, Courier[TransactionMarkers, Codes]] = {}
        self.retries = 0
        """Markers that were sent again, one counted for each partition."""
        self.unknown_destination = 0
        """Partitions without a leader, for which markers wait."""

    @property
    def queued(self) -> int:
        """Markers of transactions that wait to be sent to a broker, or for its answer."""
        return sum(each.unanswered for each in self._couriers.values())

    def send(self, marker: TransactionMarkers, wanted: Callable[[], int | None]) -> Outcome:
        """Send the markers of one transaction, until every partition has its own.

        Args:
            marker: of all its partitions.
            wanted: returns the coordinator's epoch, None once this broker is not the coordinator.
        """
        remaining, sent, homeless = set(marker.partitions), set[PartitionKey](), 0
        while True:
            self.unknown_destination -= homeless
            homeless = 0
            epoch = wanted()
            if epoch is None:
                return Outcome.ENDED
            by_leader = self._by_leader(remaining)
            now = {key for partitions in by_leader.values() for key in partitions}
            self.retries += len(now & sent)
            sent |= now
            homeless = len(remaining) - len(now)
            self.unknown_destination += homeless
            tickets = [
                self._courier(leader).submit(
                    replace(marker, coordinator_epoch=epoch, partitions=tuple(sorted(partitions)))
                )
                for leader, partitions in by_leader.items()
            ]
            fenced = False
            for ticket in tickets:
                fenced = self._settle(ticket, remaining) or fenced
            if fenced or not remaining:
                self.unknown_destination -= homeless
                return Outcome.FENCED if fenced else Outcome.DONE
            self._runtime.sleep(self._backoff_s)

    def close(self) -> None:
        """Stop sending."""
        for courier in self._couriers.values():
            courier.close()

    def _by_leader(self, remaining: set[PartitionKey]) -> dict[int, list[PartitionKey]]:
        """Group partitions by leader, and drop those of deleted topics."""
        found: dict[int, list[PartitionKey]] = {}
        for key in list(remaining):
            leader = self._leader_of(*key)
            if leader is None:
                remaining.discard(key)
            elif leader != NO_LEADER:
                found.setdefault(leader, []).append(key)
        return found

    def _courier(self, broker: int) -> Courier[TransactionMarkers, Codes]:
        courier = self._couriers.get(broker)
        if courier is None:
            courier = self._couriers[broker] = Courier(
                f"markers-to-{broker}",
                lambda markers: self._send(broker, markers),
                runtime=self._runtime,
            )
        return courier

    @staticmethod
    def _settle(ticket: Ticket[TransactionMarkers, Codes], remaining: set[PartitionKey]) -> bool:
        """Process a broker's answer; True when this broker must not end the transaction."""
        marker = ticket.item
        try:
            codes = ticket.result()
        except ZkbrokerError as error:
            logger.info("markers not sent producer=%d error=%s", marker.producer_id, error)
            return False
        fenced = _codes_of(codes, marker.partitions, _FENCED)
        if fenced:
            logger.warning(
                "markers refused producer=%d epoch=%d coordinator_epoch=%d codes=%s",
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                {str(key): int(codes[key]) for key in fenced},
            )
        remaining.difference_update(_codes_of(codes, marker.partitions, _DONE))
        return bool(fenced)


def _codes_of(
    codes: Codes, partitions: Sequence[PartitionKey], wanted: Collection[ErrorCode]
) -> list[PartitionKey]:
    return [key for key in partitions if codes.get(key) in wanted]
