"""Split planning: offset ranges to mappers. Pure; no network, no clock.

    partition ranges ──▶ pieces no larger than asked ──▶ bins of even bytes ──▶ one bin per mapper

Invariant: the pieces of a partition are contiguous, disjoint and cover exactly the range planned;
the same input gives the same plan, byte for byte.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_loader.reading.positions import TopicPartition
from zkbroker.types import Partition07

_LEAST_RECORD_BYTES = 64


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[start, until)` of one partition, with their estimated bytes."""

    topic: str
    partition: int
    start: int
    until: int
    estimated_bytes: int = 0

    @property
    def size(self) -> int:
        """Number of offsets."""
        return max(0, self.until - self.start)

    @property
    def source(self) -> TopicPartition:
        """The partition it is part of."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.until})"


def divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into `parts` contiguous pieces of even size (fewer when it is too short)."""
    parts = max(1, min(parts, whole.size))
    pieces = []
    for index in range(parts):
        start = whole.start + whole.size * index // parts
        until = whole.start + whole.size * (index + 1) // parts
        share = whole.estimated_bytes * (until - start) // max(1, whole.size)
        pieces.append(replace(whole, start=start, until=until, estimated_bytes=share))
    return pieces


def split_for_reading(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Cut ranges for a read by the rules of `minPartitions` and `maxRecordsPerPartition`.

    Empty ranges are dropped. First no piece holds more than `max_records` offsets; when that gives
    fewer than `min_partitions` pieces, ranges are cut in proportion to their bytes (their offsets
    when bytes are unknown), so the number reached is about `min_partitions`, never far below it.
    """
    present = [each for each in ranges if each.size > 0]
    pieces = (
        [piece for each in present for piece in divide(each, -(-each.size // max_records))]
        if max_records
        else present
    )
    if not min_partitions or len(pieces) >= min_partitions or not pieces:
        return pieces
    shares = proportional([_weight(each) for each in present], min_partitions)
    cut = []
    for each, share in zip(present, shares, strict=True):
        least = -(-each.size // max_records) if max_records else 1
        cut.extend(divide(each, max(share, least)))
    return cut


def proportional(weights: Sequence[int], total: int) -> list[int]:
    """Share `total` out in proportion to weights, at least one each (largest remainder)."""
    whole = sum(weights)
    if whole <= 0:
        return [1] * len(weights)
    exact = [weight * total / whole for weight in weights]
    shares = [max(1, int(share)) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (int(exact[i]) - exact[i], i))
    for index in by_remainder:
        if sum(shares) >= total:
            break
        shares[index] += 1
    return shares


def split_for_loading(
    ranges: Iterable[OffsetRange], *, split_bytes: int, group_bytes: int
) -> list[list[OffsetRange]]:
    """Cut ranges into mappers: one per partition, large ones split, small ones grouped.

    Args:
        ranges: offsets to load; empty ranges are dropped.
        split_bytes: a partition estimated to be larger is cut into even pieces of at most this.
        group_bytes: partitions estimated to be smaller share a mapper of about this size; 0 never
            groups. A record counts 64 bytes at least, however well the log is compressed.

    Returns:
        Mappers, the largest first, so that a long one does not start last.
    """
    mappers: list[list[OffsetRange]] = []
    small: list[OffsetRange] = []
    for each in sorted(ranges, key=lambda r: (r.topic, r.partition, r.start)):
        if each.size == 0:
            continue
        if group_bytes and _effort(each) * 2 <= group_bytes:
            small.append(each)
        else:
            pieces = divide(each, -(-each.estimated_bytes // max(1, split_bytes)) or 1)
            mappers.extend([piece] for piece in pieces)
    mappers.extend(balance(small, -(-sum(map(_effort, small)) // max(1, group_bytes)) or 1))
    return sorted(mappers, key=lambda m: (-sum(map(_weight, m)), m[0].topic, m[0].partition))


def balance(ranges: Sequence[OffsetRange], bins: int) -> list[list[OffsetRange]]:
    """Group ranges into at most `bins` groups of even weight (largest first into the lightest)."""
    groups: list[list[OffsetRange]] = [[] for _ in range(bins)]
    heap = [(0, index) for index in range(bins)]
    for each in sorted(ranges, key=lambda r: (-_weight(r), r.topic, r.partition, r.start)):
        weight, index = heapq.heappop(heap)
        groups[index].append(each)
        heapq.heappush(heap, (weight + _weight(each), index))
    return [sorted(group, key=lambda r: (r.topic, r.partition)) for group in groups if group]


def cap_records(
    start: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Lower the ends so that at most `most` offsets are read, shared in proportion to the lags.

    Every partition with a lag gets at least one offset while `most` allows it, so none starves
    beside a larger one. Arithmetic is exact: the shares add up to `most`.
    """
    lags = {tp: until[tp] - start.get(tp, until[tp]) for tp in until}
    total = sum(lag for lag in lags.values() if lag > 0)
    if total <= most:
        return dict(until)
    capped = {tp: start.get(tp, until[tp]) for tp in until}
    waiting = sorted((tp for tp, lag in lags.items() if lag > 0), key=lambda tp: (lags[tp], tp))
    budget = most
    for index, tp in enumerate(waiting):
        left = sum(lags[other] for other in waiting[index:])
        share = min(lags[tp], budget, max(1, round(budget * lags[tp] / left)))
        if index == len(waiting) - 1:
            share = min(lags[tp], budget)
        capped[tp] += share
        budget -= share
    return capped


def _effort(each: OffsetRange) -> int:
    # In Kafka 0.7 offsets are bytes.
    least = 0 if isinstance(each.partition, Partition07) else _LEAST_RECORD_BYTES * each.size
    return max(each.estimated_bytes, least)


def _weight(each: OffsetRange) -> int:
    return each.estimated_bytes or each.size
