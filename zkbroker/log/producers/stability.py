"""Up to where a log says how its transactions ended, and which transactions may begin in it.

    last stable offset = min(high watermark, first offset of each transaction that is open, or
                             whose marker is not below the high watermark)

Invariants: an open transaction begins only where its coordinator was asked and no marker came
between the question and the append; a batch that arrives late would otherwise open one that nobody
ever ends (KIP-890). A marker that a restart finds above the high watermark holds nobody up: it was
sent because the end of its transaction was on every replica of the coordinator's log.
"""

from collections import deque
from weakref import WeakValueDictionary


class Verification:
    """A question to a transaction's coordinator that is under way; good until the next marker."""

    __slots__ = ("__weakref__",)


class Verifications:
    """Those of one log; each lives as long as the request that asked."""

    def __init__(self) -> None:
        self._begun: WeakValueDictionary[int, Verification] = WeakValueDictionary()

    def begin(self, producer_id: int) -> Verification:
        """Return what an append has to show after the coordinator said yes."""
        found = self._begun.get(producer_id)
        if found is None:
            found = self._begun[producer_id] = Verification()
        return found

    def holds(self, producer_id: int, verification: Verification | None) -> bool:
        """Whether no marker of the producer was written since it began."""
        return verification is not None and self._begun.get(producer_id) is verification

    def ended(self, producer_id: int) -> None:
        """Note a marker of a producer."""
        self._begun.pop(producer_id, None)


class EndedTransactions:
    """Transactions with a marker, until that is below the high watermark."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, int]] = deque()
        # Of these the ones that no later one begins before: the first of them begins first of all.
        self._least: deque[tuple[int, int]] = deque()

    def note(self, first_offset: int, marker_offset: int) -> None:
        """Take one; markers come in the order of the log."""
        self._ended.append((first_offset, marker_offset))
        self._note_least(first_offset, marker_offset)

    def _note_least(self, first_offset: int, marker_offset: int) -> None:
        while self._least and self._least[-1][0] >= first_offset:
            self._least.pop()
        self._least.append((first_offset, marker_offset))

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first one begins whose marker is not below a high watermark."""
        for ended in (self._ended, self._least):
            while ended and ended[0][1] < high_watermark:
                ended.popleft()
        return self._least[0][0] if self._least else None

    def truncate_to(self, offset: int) -> None:
        """Forget those whose markers were cut off: they are open again."""
        while self._ended and self._ended[-1][1] >= offset:
            self._ended.pop()
        self._least.clear()
        for first_offset, marker_offset in self._ended:
            self._note_least(first_offset, marker_offset)
