"""Predicates on topic, partition, offset and timestamp, turned into fewer partitions and ranges.

Invariant: pushing down changes what is read, never what a query answers. A predicate is taken from
    Spark only if the ranges meet it exactly. Times only move the start, by the brokers' indexes,
    and Spark still checks them, since records need not be in order of time.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.event_time import to_ms

_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
_COMPARISONS = {
    "EqualTo": "==",
    "EqualNullSafe": "==",
    "In": "in",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "StringStartsWith": "starts",
}
_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "in": lambda value, wanted: value in wanted,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "starts": str.startswith,
}


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison of a column with a value."""

    column: str
    comparison: str
    value: Any


@dataclass(frozen=True, slots=True)
class Pushed:
    """The predicates that narrow a read."""

    predicates: tuple[Predicate, ...] = ()

    def wants(self, source: TopicPartition) -> bool:
        """Return whether a partition can hold rows at all."""
        return all(
            _HOLDS[each.comparison](getattr(source, each.column), each.value)
            for each in self.predicates
            if each.column in ("topic", "partition")
        )

    def narrow(self, whole: OffsetRange) -> OffsetRange:
        """Return the part of a range whose offsets meet the predicates."""
        start, until = whole.start, whole.until
        for each in self.predicates:
            if each.column != "offset":
                continue
            low, high = _bounds(each)
            start, until = max(start, low), min(until, high)
        return replace(whole, start=start, until=max(start, until))

    @property
    def since_ms(self) -> int | None:
        """The time before which no row is wanted, in whole milliseconds, or None."""
        times = [
            to_ms(_zoned(each.value))
            for each in self.predicates
            if each.column == "timestamp" and each.comparison in ("==", ">", ">=")
        ]
        return max(times) if times else None


def push(filters: Sequence[Any]) -> tuple[Pushed, list[Any]]:
    """Return the predicates to push down from Spark's filters, and the filters left to Spark."""
    taken: list[Predicate] = []
    left: list[Any] = []
    for each in filters:
        predicate = _predicate(each)
        if predicate is not None:
            taken.append(predicate)
        met = predicate.column != "timestamp" if predicate is not None else _always_true(each)
        if not met:
            left.append(each)
    return Pushed(tuple(taken)), left


def _predicate(given: Any) -> Predicate | None:
    comparison = _COMPARISONS.get(type(given).__name__)
    if comparison is None or len(given.attribute) != 1:
        return None
    column, value = given.attribute[0], given.value
    known: dict[str, Callable[[Any], bool]] = {
        "topic": lambda v: isinstance(v, str) and comparison in ("==", "starts"),
        "partition": lambda v: _is_int(v) and comparison != "starts",
        "offset": lambda v: _is_int(v) and comparison not in ("in", "starts"),
        "timestamp": lambda v: isinstance(v, datetime) and comparison not in ("in", "starts"),
    }
    if column not in known:
        return None
    if comparison == "in" and column in ("topic", "partition"):
        wanted = str if column == "topic" else int
        return Predicate(column, "in", value) if _all(value, wanted) else None
    return Predicate(column, comparison, value) if known[column](value) else None


def _always_true(given: Any) -> bool:
    return (
        type(given).__name__ == "IsNotNull"
        and len(given.attribute) == 1
        and given.attribute[0] in _NEVER_NULL
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, kind) for each in values)


def _bounds(predicate: Predicate) -> tuple[int, int]:
    """Return `[low, high)` of the offsets that meet a predicate."""
    value = predicate.value
    low, high = 0, 2**63 - 1
    match predicate.comparison:
        case "==":
            low, high = value, value + 1
        case ">":
            low = value + 1
        case ">=":
            low = value
        case "<":
            high = value
        case _:
            high = value + 1
    return low, high


def _zoned(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)
