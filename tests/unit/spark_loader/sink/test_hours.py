"""Each row has a time, or a reason why it has none."""

import pyarrow as pa
import pytest

from spark_loader import EventTime
from spark_loader.sink.hours import EventTimes

HOUR_MS = 3_600_000
TIMES = pa.timestamp("us", tz="UTC")


def batch(stamps_ms, values=None, **columns):
    arrays = {
        "timestamp": pa.array([each * 1000 for each in stamps_ms], TIMES),
        "value": pa.array(values or [b""] * len(stamps_ms), pa.binary()),
        **{name: pa.array(each, TIMES) for name, each in columns.items()},
    }
    return pa.RecordBatch.from_pydict(arrays)


def test_message_and_column_times_are_found():
    found = EventTimes(EventTime(), "quarantine", 0).of(batch([5, -1, 2**52]))
    assert found[0].to_pylist()[0] == 5
    assert found[1].keys() == {1, 2}
    at = [1_500_000, None, -(2**62)]
    times, reasons = EventTimes(EventTime.column("at"), "quarantine", 0).of(batch([0] * 3, at=at))
    assert times.to_pylist()[:2] == [1500, None]
    assert reasons.keys() == {1, 2}
    assert reasons[1] == "column at is null"
    assert reasons[2].startswith("no such time: -")


@pytest.mark.parametrize(
    ("fallback", "times", "reasons"),
    [
        ("quarantine", [1500, None, None], {1, 2}),
        ("timestamp", [1500, 7, -1], {2}),
        ("load-time", [1500, 99, 99], set()),
    ],
)
@pytest.mark.parametrize("source", ["column", "json"])
def test_fallback_applies_to_rows_without_time(fallback, times, reasons, source):
    where = EventTime.column("at") if source == "column" else EventTime.json("at", "ms")
    values = [b'{"at": 1500}', b"{}", b"{}"]
    rows = batch([0, 7, -1], values, at=[1_500_000, None, None])
    found, why = EventTimes(where, fallback, 99).of(rows)
    assert (found.to_pylist(), set(why)) == (times, reasons)


def test_rows_are_grouped_by_hour_in_order():
    times = pa.array([HOUR_MS, 0, HOUR_MS + 1, -1], pa.int64())
    rows = pa.RecordBatch.from_pydict({"n": [0, 1, 2, 3]})
    found = EventTimes(EventTime(zone="Europe/Berlin"), "quarantine", 0).by_hour(rows, times)
    assert {name: part.column("n").to_pylist() for name, part in found} == {
        "date=1970-01-01/hour=2": [0, 2],
        "date=1970-01-01/hour=1": [1],
        "date=1970-01-01/hour=0": [3],
    }
    empty = EventTimes(EventTime(), "quarantine", 0).of(batch([]))
    assert (len(empty[0]), empty[1]) == (0, {})
