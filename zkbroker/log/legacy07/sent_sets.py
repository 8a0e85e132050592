"""Sets of 0.7 producers that their view does not show yet, kept in their original form.

Invariant: sets are in the order of the master, and take at most a limit in bytes. A set is valid
only while the master still has the term under which the set was appended.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from zkbroker.records.generations import Stretch07

logger = logging.getLogger(__name__)

Term = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SentSet:
    """A set that a 0.7 producer sent, and its place in the master."""

    offset: int
    stretches: Sequence[Stretch07]
    count: int
    size: int
    term: Term


class SentSets:
    """The sets of one view.

    Args:
        limit_bytes: a set that would exceed it is not kept, but rendered from the master.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sets: deque[SentSet] = deque()
        self._bytes = 0

    def add(self, offset: int, stretches: Sequence[Stretch07], term: Term) -> None:
        """Keep a set.

        Args:
            offset: of its first message in the master.
            stretches: all of it.
            term: of the master before it was appended.
        """
        size = sum(len(each.data) for each in stretches)
        if self._bytes + size > self._limit_bytes:
            logger.debug("0.7 set not kept as sent offset=%d bytes=%d", offset, size)
            return
        count = sum(each.messages for each in stretches)
        # Copied, because the received buffer belongs to its connection.
        kept = [each._replace(data=bytes(each.data)) for each in stretches]
        place = len(self._sets)
        while place and self._sets[place - 1].offset > offset:
            place -= 1
        self._sets.insert(place, SentSet(offset, kept, count, size, term))
        self._bytes += size

    def first(self, at: int, term: Term) -> SentSet | None:
        """Return the first valid set from an offset on, and drop those before it."""
        while self._sets:
            sent = self._sets[0]
            if sent.offset >= at and sent.term == term:
                return sent
            self.drop_first()
        return None

    def drop_first(self) -> None:
        """Drop the first set: the view shows it, or it is no longer valid."""
        self._bytes -= self._sets.popleft().size
