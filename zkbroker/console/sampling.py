"""Chooses the partitions to read offsets of, so that a reading costs brokers little.

Invariant: one reading covers at most `budget` partitions, however large the cluster is. Partitions
    never read come first. Half of the rest is for partitions that move, and half goes round all
    others, so that each is read again after at most `partitions / budget * 2` readings.
"""

import heapq
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from zkbroker.types import PartitionKey

MOVES_FOR_MS = 60_000
"""A partition that moved within this time counts as moving."""
_STARTS_EVERY_MS = 60_000


@dataclass(slots=True)
class Look:
    """The readings of a partition.

    Args:
        seen_ms: time of its last reading; 0 for never.
        moved_ms: time of the last reading with a new end.
        start_seen_ms: time of the last reading of its start.
        end: log end offset; None while unknown.
        start: log start offset; None while unknown.
        rate: messages a second between the last two readings; None until there are two.
    """

    seen_ms: int = 0
    moved_ms: int = 0
    start_seen_ms: int = 0
    end: int | None = None
    start: int | None = None
    rate: float | None = None

    def saw_end(self, end: int | None, now_ms: int) -> None:
        """Record a leader's answer; None if there was none."""
        before, seen_ms = self.end, self.seen_ms
        self.seen_ms = now_ms
        if end is None:
            self.rate = None
            return
        self.end = end
        if before is None or not seen_ms:
            return
        self.rate = max(0, end - before) * 1000 / max(1, now_ms - seen_ms)
        if end != before:
            self.moved_ms = now_ms

    def saw_start(self, start: int | None, now_ms: int) -> None:
        """Record the log start offset from a leader."""
        self.start_seen_ms = now_ms
        if start is not None:
            self.start = start


def choose(
    looks: Mapping[PartitionKey, Look], led: Collection[PartitionKey], now_ms: int, budget: int
) -> list[PartitionKey]:
    """Return the partitions with a leader whose ends are read now, at most `budget`."""
    if len(led) <= budget:
        return list(led)
    fresh, moving, still = [], [], []
    for key in led:
        look = looks[key]
        if not look.seen_ms:
            fresh.append(key)
        elif now_ms - look.moved_ms <= MOVES_FOR_MS:
            moving.append(key)
        else:
            still.append(key)
    chosen = fresh[:budget]
    left = budget - len(chosen)
    quick = heapq.nsmallest(max(left // 2, left - len(still)), moving, key=_age(looks))
    chosen += quick
    return chosen + heapq.nsmallest(left - len(quick), still, key=_age(looks))


def choose_starts(
    looks: Mapping[PartitionKey, Look], led: Collection[PartitionKey], now_ms: int, budget: int
) -> list[PartitionKey]:
    """Return the partitions whose starts are read now: those not read for a minute."""
    due = [key for key in led if now_ms - looks[key].start_seen_ms >= _STARTS_EVERY_MS]
    return heapq.nsmallest(budget, due, key=lambda key: looks[key].start_seen_ms)


def _age(looks: Mapping[PartitionKey, Look]) -> Callable[[PartitionKey], int]:
    return lambda key: looks[key].seen_ms
