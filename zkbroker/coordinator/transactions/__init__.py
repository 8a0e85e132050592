"""The transaction coordinator: transactional ids, producer epochs, and the ends of transactions."""

from zkbroker.coordinator.transactions.coordinator import (
    InitResult,
    TransactionCoordinator,
    TransactionSettings,
)

__all__ = ["InitResult", "TransactionCoordinator", "TransactionSettings"]
