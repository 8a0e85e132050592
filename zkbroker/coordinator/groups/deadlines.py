"""Deadlines of many groups in one heap.

Invariant: for each key the heap holds an entry no later than the last deadline added. A deadline
that moves later leaves its old entry in place; when it is popped, the new one is added.
"""

import heapq
from itertools import count
from typing import Generic, TypeVar

Key = TypeVar("Key")


class DeadlineHeap(Generic[Key]):
    """The keys by deadline; `pop_due` returns those that have passed."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._earliest: dict[Key, int] = {}
        self._order = count()

    def add(self, key: Key, deadline_ms: int) -> bool:
        """Remember a deadline, unless the key already has an earlier one.

        Returns:
            Whether it is now the earliest of all.
        """
        known = self._earliest.get(key)
        if known is not None and known <= deadline_ms:
            return False
        self._earliest[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, next(self._order), key))
        return self.earliest() == deadline_ms

    def discard(self, key: Key) -> None:
        """Forget a key."""
        self._earliest.pop(key, None)

    def earliest(self) -> int | None:
        """The earliest deadline of all; None if there is none."""
        while self._heap:
            deadline_ms, _, key = self._heap[0]
            if self._earliest.get(key) == deadline_ms:
                return deadline_ms
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now_ms: int) -> list[Key]:
        """Remove and return the keys whose deadline has passed, the earliest first."""
        due: list[Key] = []
        while (deadline_ms := self.earliest()) is not None and deadline_ms <= now_ms:
            key = heapq.heappop(self._heap)[2]
            del self._earliest[key]
            due.append(key)
        return due
