"""Texts become values of a type, or are refused."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_loader.columns.texts import from_numbers, from_texts
from spark_loader.columns.types import TIMES, parse_columns


def convert(kind, *texts, zone="UTC"):
    (column,) = parse_columns(f"a:{kind}", "--x")
    return from_texts(pa.array(texts, pa.string()), column, zone).to_pylist()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-7", -7),
        ("double", "1e3", 1000.0),
        ("boolean", "true", True),
        ("date", "2015-05-17", date(2015, 5, 17)),
        ("date[%d.%m.%Y]", "17.05.2015", date(2015, 5, 17)),
        ("decimal(6,2)", "12.5", Decimal("12.50")),
        ("timestamp[ms]", "1431857103250", datetime(2015, 5, 17, 10, 5, 3, 250_000, UTC)),
        ("timestamp[s]", "-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_texts_convert_to_typed_values(kind, text, value):
    assert convert(kind, text, None, text) == [value, None, value]


def test_times_with_and_without_zone_convert_together():
    texts = ("2015-05-17T10:05:03.000007Z", "2015-05-17 10:05:03", "2015-05-17T10:05:03+02:00")
    hours = [each.hour for each in convert("timestamp", *texts, zone="Europe/Berlin")]
    assert hours == [10, 8, 8]
    assert convert("timestamp", texts[0])[0].microsecond == 7
    nanoseconds = ("2015-05-17T10:05:03.123456789Z", "2015-05-17T10:05:03.1234567", texts[0])
    found = convert("timestamp", *nanoseconds)
    assert [each.microsecond for each in found] == [123_456, 123_456, 7]
    (midnight,) = convert("timestamp", "2015-05-17", zone="Europe/Berlin")
    assert midnight == datetime(2015, 5, 16, 22, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_time_format_without_zone_uses_given_zone(zone):
    own = "timestamp[%d/%b/%Y:%H:%M:%S %z]"
    found = convert(
        own, "17/May/2015:10:05:03 +0130", None, "17/May/2015:10:05:03 -0000", zone=zone
    )
    assert [each and (each.hour, each.minute) for each in found] == [(8, 35), None, (10, 5)]
    (bare,) = convert("timestamp[%Y %m %d %H]", "2015 05 17 10", zone=zone)
    assert bare.hour == (10 if zone == "UTC" else 14)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.5"),
        ("int", "99999999999"),
        ("boolean", "maybe"),
        ("date", "2015-13-01"),
        ("decimal(4,1)", "1.23"),
        ("timestamp", "soon"),
        ("timestamp[%Y]", "soon"),
        ("timestamp[ms]", "soon"),
        ("timestamp[ms]", "nan"),
        ("timestamp[s]", "1e300"),
    ],
)
def test_text_of_wrong_type_is_refused(kind, text):
    with pytest.raises(pa.ArrowInvalid):
        convert(kind, text)


def test_numbers_convert_to_times():
    (column,) = parse_columns("a:timestamp[us]", "--x")
    found = from_numbers(pa.array([1_431_857_103_123_457], pa.int64()), column)
    assert found.type == TIMES
    assert found[0].value == 1_431_857_103_123_457
