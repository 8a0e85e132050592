"""One partition of `__transaction_state` that is led here, with its transactional ids."""

from typing import Protocol

from zkbroker.coordinator.hosted import HostedPartition
from zkbroker.coordinator.transactions.store import TransactionStore
from zkbroker.coordinator.transactions.transaction import Transaction
from zkbroker.runtime import Event


class LeaderEpochHolder(Protocol):
    """One leadership of this broker for the partition."""

    @property
    def leader_epoch(self) -> int: ...


class TransactionPartition(HostedPartition):
    """The transactional ids of one partition.

    Args:
        number: of the partition.
        leadership: of this broker; the coordinator's epoch is its leader epoch.
        store: its log.
    """

    def __init__(self, number: int, leadership: LeaderEpochHolder, store: TransactionStore) -> None:
        super().__init__(number)
        self.leadership = leadership
        self.store = store
        self.transactions: dict[str, Transaction] = {}
        self.size_bytes = 0
        """Approximate memory of the ids with the partitions of their transactions."""
        self.ending: dict[str, Event] = {}
        """Events, set when a decided transaction has ended, or will not be ended here."""
