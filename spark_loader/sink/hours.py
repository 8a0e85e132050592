"""The event time of each row of a batch, and its rows by hour.

Invariant: a row has a time that a calendar holds, or a reason why it has none; rows of an hour stay
in the order they came in.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.sink.event_time import EventTime, Extractor, HourNames, TimeError, column_times

FALLBACKS = ("quarantine", "timestamp", "load-time")

_QUARTER_MS = 900_000
# Every zone's calendar holds the times before this; the last days of 9999 are checked one by one.
_SURE_MS = 253_402_000_000_000


class EventTimes:
    """Finds the times of rows.

    Args:
        event_time: where the time of an event comes from.
        fallback: for a record without one: `quarantine`, the message `timestamp` or the
            `load-time`.
        load_time_ms: the load time.
    """

    def __init__(self, event_time: EventTime, fallback: str, load_time_ms: int) -> None:
        self._event_time = event_time
        self._fallback = fallback
        self._load_time_ms = load_time_ms
        self._hours = HourNames(event_time.zone)
        self._extractor = Extractor(event_time) if event_time.in_value else None

    def of(self, batch: pa.RecordBatch) -> tuple[pa.Array, dict[int, str]]:
        """Return the times in ms, and the reason, by index, of each row without a usable time."""
        stamps = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        reasons: dict[int, str] = {}
        if batch.num_rows == 0:
            return stamps, reasons
        if self._event_time.source == "column":
            times, reasons = column_times(batch, self._event_time.field)
        elif self._extractor is None:
            times = stamps
            ends = pc.min_max(stamps)
            if ends["min"].as_py() >= 0 and ends["max"].as_py() < _SURE_MS:
                return times, reasons
            negative = pc.indices_nonzero(pc.less(stamps, 0)).to_pylist()
            reasons = dict.fromkeys(negative, "the message has no timestamp (message format 0)")
            late = pc.indices_nonzero(pc.greater_equal(stamps, _SURE_MS)).to_pylist()
            for index in late:
                self._check_time(index, stamps[index].as_py(), reasons)
        else:
            found, reasons = self._extractor.times_ms(batch.column("value").to_pylist())
            for index, time_ms in enumerate(found):
                if time_ms is not None and not self._check_time(index, time_ms, reasons):
                    found[index] = None
            times = pa.array(found, pa.int64())
        if not reasons:
            return times, reasons
        if self._fallback == "load-time":
            return _filled(times, reasons, pa.scalar(self._load_time_ms, pa.int64())), {}
        if self._fallback == "timestamp" and self._event_time.source != "timestamp":
            times = _filled(times, reasons, stamps)
            reasons = {
                index: f"{reason}, and the message has no timestamp"
                for index, reason in reasons.items()
                if not 0 <= times[index].as_py() < _SURE_MS
            }
        return times, reasons

    def by_hour(self, rows: pa.RecordBatch, times: pa.Array) -> list[tuple[str, pa.RecordBatch]]:
        """Return rows by the name of their hour, in the order in which hours first appear."""
        quarters = _floor_divide(times, _QUARTER_MS)
        distinct = pc.unique(quarters)
        names = [self._hours.of(quarter * _QUARTER_MS) for quarter in distinct.to_pylist()]
        order = {name: index for index, name in enumerate(dict.fromkeys(names))}
        if len(order) == 1:
            return [(names[0], rows)]
        number_of = pa.array([order[name] for name in names], pa.int32())
        numbers = number_of.take(pc.index_in(quarters, value_set=distinct))
        # A stable sort keeps offsets ascending within each hour.
        arranged = rows.take(pc.array_sort_indices(numbers))
        counts = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
        grouped = []
        position = 0
        for name, number in order.items():
            grouped.append((name, arranged.slice(position, counts[number])))
            position += counts[number]
        return grouped

    def _check_time(self, index: int, time_ms: int, reasons: dict[int, str]) -> bool:
        """Return whether a calendar holds a time; else add the reason."""
        try:
            self._hours.of(time_ms)
        except TimeError as error:
            reasons[index] = str(error)
            return False
        return True


def _filled(times: pa.Array, reasons: dict[int, str], instead: Any) -> pa.Array:
    bad = pa.array(sorted(reasons), pa.int64())
    mask = pc.is_in(pa.array(range(len(times)), pa.int64()), bad)
    return pc.if_else(mask, instead, times)


def _floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    quotient = pc.divide(numbers, divisor)
    inexact = pc.not_equal(pc.multiply(quotient, divisor), numbers)
    # Arrow's division cuts towards zero.
    step = pc.and_(pc.less(numbers, 0), inexact)
    return pc.subtract(quotient, step.cast(pa.int64()))
