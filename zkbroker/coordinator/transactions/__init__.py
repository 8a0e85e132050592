"""The transaction coordinator: transactional ids, their producers' epochs, and how they end."""

from zkbroker.coordinator.transactions.coordinator import (
    InitResult,
    TransactionCoordinator,
    TransactionSettings,
)

__all__ = ["InitResult", "TransactionCoordinator", "TransactionSettings"]
