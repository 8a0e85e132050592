"""State of transactions in a pass over a log, batch by batch in the log's order.

Invariant: data of an aborted transaction never stays. Its marker, and its entry in the transaction
index, stay if the pass found data of the transaction before the marker; so does the marker of a
committed transaction.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.records import ABORT, EntryInfo, control_type


def aborted_between(segments: Iterable[Segment], start: int, end: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap `[start, end)`, by first offset.

    All segments of the log are needed, because a marker may come long after its data.
    """
    found = [
        each
        for segment in segments
        for each in segment.aborted
        if each.last_offset >= start and each.first_offset < end
    ]
    return sorted(found, key=lambda each: each.first_offset)


class PassTransactions:
    """The state of transactions at the present batch of a pass.

    Args:
        aborted: the aborted transactions of the log, by first offset.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = deque(aborted)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()

    def _advance_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            each = self._waiting.popleft()
            self._aborted.setdefault(each.producer_id, each)

    def is_aborted(self, batch: EntryInfo) -> bool:
        """Process a batch of a transaction; returns whether the transaction was aborted."""
        self._advance_to(batch.last_offset)
        if batch.producer_id in self._aborted:
            self._met.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def end(
        self, marker: EntryInfo, data: bytes | memoryview
    ) -> tuple[bool, AbortedTransaction | None]:
        """Process a control batch.

        Returns:
            Whether it must stay because data of its transaction was found, and the entry of the
            transaction index that stays with it.
        """
        self._advance_to(marker.last_offset)
        kind = control_type(data) if marker.record_count else None
        if kind is None:
            return False, None
        if kind != ABORT:
            met = marker.producer_id in self._committed
            self._committed.discard(marker.producer_id)
            return met, None
        aborted = self._aborted.pop(marker.producer_id, None)
        met = marker.producer_id in self._met
        self._met.discard(marker.producer_id)
        return met, aborted if met else None
