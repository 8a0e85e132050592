"""One partition of `__transaction_state` that is led here, with its transactional ids."""

from typing import Protocol

from zkbroker.coordinator.hosted import HostedPartition
from zkbroker.coordinator.transactions.store import TransactionStore
from zkbroker.coordinator.transactions.transaction import Transaction
from zkbroker.runtime import Event


class LedPartition(Protocol):
    """The partition's replica on this broker."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def term(self) -> int: ...


class TransactionPartition(HostedPartition):
    """The transactional ids of one partition.

    Args:
        number: of the partition.
        led: its replica here; the coordinator's epoch is its leader epoch.
        store: its log.
    """

    def __init__(self, number: int, led: LedPartition, store: TransactionStore) -> None:
        super().__init__(number)
        self.led = led
        self.term = led.term
        self.store = store
        self.transactions: dict[str, Transaction] = {}
        self.size_bytes = 0
        """About how much memory the ids take, with the partitions of their transactions."""
        self.ending: dict[str, Event] = {}
        """Set when a transaction that is decided has ended, or will not be ended here."""
