"""Transactions with a marker above the high watermark, and verifications under way.

Invariants: a transaction begins only after its coordinator confirmed it, with no marker between the
verification and the append; otherwise a late batch could begin a transaction that never ends
(KIP-890). A marker that a restart finds above the high watermark does not hold back the last stable
offset: it was sent only after the end of its transaction was on every replica of the coordinator's
log.
"""

from collections import deque


class Verification:
    """A verification with a transaction's coordinator; valid until the next marker."""

    __slots__ = ("__weakref__",)


class EndedTransactions:
    """Transactions with a marker, until the marker is below the high watermark."""

    def __init__(self) -> None:
        self.pending: deque[tuple[int, int]] = deque()
        """(First offset, offset of the marker), ascending by the marker."""
        # The transactions of which no later one begins earlier; the first of them begins first.
        self._least: deque[tuple[int, int]] = deque()

    def note(self, first_offset: int, marker_offset: int) -> None:
        """Record a transaction that ended; markers come in the order of the log."""
        self.pending.append((first_offset, marker_offset))
        self._note_least(first_offset, marker_offset)

    def _note_least(self, first_offset: int, marker_offset: int) -> None:
        while self._least and self._least[-1][0] >= first_offset:
            self._least.pop()
        self._least.append((first_offset, marker_offset))

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction begins whose marker is not below a high watermark."""
        for ended in (self.pending, self._least):
            while ended and ended[0][1] < high_watermark:
                ended.popleft()
        return self._least[0][0] if self._least else None

    def truncate_to(self, offset: int) -> None:
        """Drop transactions whose markers were cut off: they are open again."""
        while self.pending and self.pending[-1][1] >= offset:
            self.pending.pop()
        self._least.clear()
        for first_offset, marker_offset in self.pending:
            self._note_least(first_offset, marker_offset)
