"""Open and aborted transactions, found from the batches of a log.

A transaction begins with a producer's first transactional batch and ends with a marker, a control
batch of the same producer that says COMMIT or ABORT. A transaction without a marker is open:
readers of committed messages stop at its first offset.

Invariant: the state depends only on the batches in the log, in their order.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.records import ABORT, EntryInfo, control_type


class OpenTransaction(NamedTuple):
    """A transaction without a marker, with the fields that its marker needs."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_offset: int


class TransactionTracker:
    """Follows the batches of a stored log in their order.

    Args:
        open_before: returns producer id → first offset of the transactions that are open before
            the first batch; called at the first batch of a transaction.
    """

    def __init__(self, open_before: Callable[[], Mapping[int, int]]) -> None:
        self._open_before = open_before
        self._open: OrderedDict[int, int] | None = None  # ascending by the first offset

    def note(self, entry: EntryInfo, read: Callable[[], bytes]) -> AbortedTransaction | None:
        """Process the next entry by its head; `read` returns its bytes.

        Returns:
            The transaction that it aborts, if any.
        """
        if not entry.is_transactional:
            return None
        if self._open is None:
            begun = sorted(self._open_before().items(), key=lambda pair: pair[1])
            self._open = OrderedDict(begun)
        if not entry.is_control:
            self._open.setdefault(entry.producer_id, entry.base_offset)
            return None
        first = self._open.pop(entry.producer_id, entry.base_offset)
        if control_type(read()) != ABORT:
            return None
        stable = next(iter(self._open.values()), entry.last_offset + 1)
        return AbortedTransaction(entry.producer_id, first, entry.last_offset, stable)
