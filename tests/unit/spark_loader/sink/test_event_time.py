"""Event times of records."""

from datetime import UTC, datetime

import pytest

from spark_loader.sink.event_time import EventTime, Extractor, HourNames, TimeError, parser
from zkbroker.errors import ConfigError

LINE = b'83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 203023 "-" "x"'
AT = 1_431_857_103_000


def time_or_reason(event_time, value):
    times, reasons = Extractor(event_time).times_ms([value])
    return times[0] if times[0] is not None else reasons[0]


def test_access_log_time_is_parsed():
    assert time_or_reason(EventTime.access_log(), LINE) == AT


def test_access_log_parser_agrees_with_strptime():
    layout = "%d/%b/%Y:%H:%M:%S %z"
    fast = parser(EventTime.access_log())
    for month in ("Jan", "Feb", "Jul", "Dec"):
        for zone in ("+0000", "-0730", "+0545"):
            text = f"09/{month}/2023:23:59:58 {zone}"
            expected = int(datetime.strptime(text, layout).timestamp() * 1000)
            assert fast(text) == expected


@pytest.mark.parametrize("text", ["17/Foo/2015:10:05:03 +0000", "17/May", "", "99/May/2015:10:05"])
def test_invalid_access_log_time_is_refused(text):
    with pytest.raises(TimeError, match="not an access log"):
        parser(EventTime.access_log())(text)


def test_regex_uses_time_group_then_first_group_then_match():
    for pattern in (r"a=\d+ b=(?P<time>\d+)", r"b=(\d+)", r"(?<=b=)\d+"):
        assert time_or_reason(EventTime.regex(pattern, "s"), b"a=1 b=7") == 7000


def test_text_without_zone_uses_given_zone():
    winter = "2015-01-17T10:00:00"
    utc = int(datetime(2015, 1, 17, 10, tzinfo=UTC).timestamp() * 1000)
    assert parser(EventTime.regex("x", zone="UTC"))(winter) == utc
    assert parser(EventTime.regex("x", zone="America/New_York"))(winter) == utc + 5 * 3_600_000
    assert parser(EventTime.regex("x", zone="America/New_York"))(winter + "+01:00") == (
        utc - 3_600_000
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"meta":{"at":"2015-05-17T10:05:03Z"}}', AT),
        (b'{"meta":{"at":1431857103}}', AT),
        (b'{"meta":{"at":1431857103000}}', AT),
        (b'{"meta":{"at":1431857103.5}}', AT + 500),
        (b'{"meta":{}}', "no field meta.at"),
        (b'{"meta":3}', "no field meta.at"),
        (b'{"meta":{"at":true}}', "holds no time"),
        (b'{"meta":{"at":"soon"}}', "not a time"),
        (b'{"meta":{"at":"' + b"9" * 400 + b'"}}', "not a time"),
        (b"not json", "not JSON"),
        (b"\xff", "not JSON"),
        (None, "no value"),
    ],
)
def test_json_field_gives_time_or_reason(value, expected):
    found = time_or_reason(EventTime.json("meta.at"), value)
    assert found == expected or expected in str(found)


def test_numeric_times_use_given_unit():
    assert time_or_reason(EventTime.json("t", "us"), b'{"t":1431857103000000}') == AT
    assert time_or_reason(EventTime.json("t", "s"), b'{"t":"1431857103"}') == AT
    assert "not a number" in time_or_reason(EventTime.json("t", "ms"), b'{"t":"x"}')


def test_hour_names_use_time_zone():
    assert HourNames().of(AT) == "date=2015-05-17/hour=10"
    assert HourNames("Asia/Kathmandu").of(AT) == "date=2015-05-17/hour=15"
    assert HourNames("Pacific/Honolulu").of(AT) == "date=2015-05-17/hour=0"
    assert HourNames().of(-1) == "date=1969-12-31/hour=23"
    # An unset time of some languages.
    assert HourNames().of(-62_135_596_800_000) == "date=0001-01-01/hour=0"
    with pytest.raises(TimeError):
        HourNames().of(10**18)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "guess"},
        {"source": "json"},
        {"source": "regex"},
        {"source": "regex", "pattern": "("},
        {"zone": "Mars/Olympus"},
    ],
)
def test_invalid_event_time_is_refused(wrong):
    with pytest.raises(ConfigError):
        EventTime(**wrong)


@pytest.mark.parametrize("layout", ["seconds", "%Q", "%"])
def test_invalid_time_format_is_refused(layout):
    with pytest.raises(ConfigError, match="event time format"):
        EventTime.json("at", layout)
