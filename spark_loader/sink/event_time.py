"""When an event happened: message timestamp, a JSON field, or a regex over the line.

    value ──▶ text of the time ──▶ format and time zone ──▶ milliseconds since 1970 ──▶ date, hour

Invariant: every record gets either a time or a reason why it has none; nothing is guessed. A text
    with a zone is read in that zone; a text without one, and the hours of the output, are in the
    zone given (UTC by default).
"""

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from zkbroker.errors import ConfigError

ACCESS_LOG_REGEX = r"\[(?P<time>\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"
ACCESS_LOG_FORMAT = "%d/%b/%Y:%H:%M:%S %z"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_REMEMBERED = 100_000
# One day inside the range of calendars, so that every zone holds it.
_FIRST_MS = -62_135_510_400_000
_LAST_MS = 253_402_214_400_000
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Where the time of an event is found and how it is written.

    Attributes:
        source: `timestamp` (of the message), `json`, `regex` or `column` (a column made from the
            value).
        field: of a JSON value, nested with dots: `meta.at`; or the name of the column.
        pattern: regex searched in the value; the group `time`, else the first group, else the
            whole match is the time.
        format: `strptime` format, or `iso`, `s`, `ms`, `us`; by default ISO 8601 for text and
            seconds or milliseconds (from 100,000,000,000 up) for numbers; the access log's own
            format for the access log's own regex.
        zone: IANA name for texts without a zone, and for `date=` and `hour=`.
    """

    source: str = "timestamp"
    field: str = ""
    pattern: str = ""
    format: str = ""
    zone: str = "UTC"

    @classmethod
    def regex(cls, pattern: str, layout: str = "", *, zone: str = "UTC") -> "EventTime":
        """Take the time that `pattern` finds in the value, written in `layout`."""
        return cls(source="regex", pattern=pattern, format=layout, zone=zone)

    @classmethod
    def json(cls, path: str, layout: str = "", *, zone: str = "UTC") -> "EventTime":
        """Take the time of a field of a JSON value."""
        return cls(source="json", field=path, format=layout, zone=zone)

    @classmethod
    def column(cls, name: str, *, zone: str = "UTC") -> "EventTime":
        """Take the time of a column made from the value."""
        return cls(source="column", field=name, zone=zone)

    @classmethod
    def access_log(cls, *, zone: str = "UTC") -> "EventTime":
        """Take the time of a line of an access log: `[17/May/2015:10:05:03 +0000]`."""
        return cls.regex(ACCESS_LOG_REGEX, ACCESS_LOG_FORMAT, zone=zone)

    @property
    def in_value(self) -> bool:
        """Whether the time is found in the bytes of values."""
        return self.source in ("json", "regex")

    def __post_init__(self) -> None:
        if self.source not in ("timestamp", "json", "regex", "column"):
            raise ConfigError(f"event time {self.source!r}: give timestamp, json, regex or column")
        if self.source in ("json", "column") and not self.field:
            raise ConfigError(f"event time from {self.source} needs a field")
        if self.source == "regex":
            try:
                re.compile(self.pattern.encode())
            except re.error as error:
                raise ConfigError(f"event time regex {self.pattern!r}: {error}") from None
            if not self.pattern:
                raise ConfigError("event time by regex needs a pattern")
        self._check_format()
        zone_of(self.zone)

    def _check_format(self) -> None:
        if self.format in ("", "iso", "s", "ms", "us"):
            return
        if "%" not in self.format:
            raise ConfigError(
                f"event time format {self.format!r}: give iso, s, ms, us or one of strptime, such "
                "as %Y-%m-%d %H:%M:%S"
            )
        try:
            datetime.strptime("", self.format)  # noqa: DTZ007
        except ValueError as error:
            # With a valid format the error is that the empty text does not match.
            if "does not match" not in str(error):
                raise ConfigError(f"event time format {self.format!r}: {error}") from None


def zone_of(name: str) -> timezone | ZoneInfo:
    """Return a time zone by IANA name.

    Raises:
        ConfigError: there is no zone of this name.
    """
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"time zone {name!r} is unknown: give an IANA name or UTC") from None


class TimeError(ValueError):
    """Why a record has no event time."""


def parser(event_time: EventTime) -> Callable[[str], int]:
    """Return a function from the text of a time to milliseconds; it raises TimeError."""
    zone = zone_of(event_time.zone)
    layout = event_time.format
    if not layout and event_time.pattern == ACCESS_LOG_REGEX:
        layout = ACCESS_LOG_FORMAT
    if layout == ACCESS_LOG_FORMAT:
        return _access_log_time
    if layout in ("s", "ms", "us"):
        per_unit = {"s": 1000.0, "ms": 1.0, "us": 0.001}[layout]

        def number(text: str) -> int:
            try:
                return int(float(text) * per_unit) if per_unit != 1 else int(float(text))
            except (ValueError, OverflowError):
                raise TimeError(f"not a number of {layout}: {text[:60]!r}") from None

        return number

    def formatted(text: str) -> int:
        try:
            if layout in ("", "iso"):
                when = datetime.fromisoformat(text.strip())
            else:
                # If the format has no zone, it is set below.
                when = datetime.strptime(text, layout)  # noqa: DTZ007
        except ValueError:
            if layout == "" and text.strip().lstrip("-").replace(".", "", 1).isdecimal():
                with contextlib.suppress(OverflowError):  # of hundreds of digits
                    return _bare_number(float(text))
            raise TimeError(f"not a time: {text[:60]!r}") from None
        return to_ms(when if when.tzinfo else when.replace(tzinfo=zone))

    return formatted


def to_ms(when: datetime) -> int:
    """Return milliseconds since 1970 of a time that has a zone."""
    return (when - _EPOCH) // _MILLISECOND


def _bare_number(number: float) -> int:
    return int(number if abs(number) >= 100_000_000_000 else number * 1000)


def _access_log_time(text: str) -> int:
    """Parse `17/May/2015:10:05:03 +0000`; ten times as fast as `strptime`."""
    try:
        minutes = int(text[22:24]) * 60 + int(text[24:26])
        offset = timedelta(minutes=-minutes if text[21] == "-" else minutes)
        when = datetime(
            int(text[7:11]),
            _MONTHS[text[3:6]],
            int(text[0:2]),
            int(text[12:14]),
            int(text[15:17]),
            int(text[18:20]),
            tzinfo=timezone(offset),
        )
    except (ValueError, KeyError, IndexError):
        raise TimeError(f"not an access log's time: {text[:60]!r}") from None
    return to_ms(when)


class Extractor:
    """Finds the time of each value of a batch; caches parsed texts.

    Not for sharing between threads.
    """

    def __init__(self, event_time: EventTime) -> None:
        self._event_time = event_time
        self._parse = parser(event_time)
        self._known: dict[bytes | str, int] = {}
        self._regex = re.compile(event_time.pattern.encode()) if event_time.pattern else None
        groups = self._regex.groupindex if self._regex else {}
        self._group = groups.get("time", 1 if self._regex and self._regex.groups else 0)
        self._path = event_time.field.split(".")

    def times_ms(self, values: Sequence[bytes | None]) -> tuple[list[int | None], dict[int, str]]:
        """Return the time of each value, None where there is none, and the reasons by index."""
        one = self._by_regex if self._event_time.source == "regex" else self._by_json
        times: list[int | None] = []
        reasons: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                times.append(one(value))
            except TimeError as error:
                times.append(None)
                reasons[index] = str(error)
        return times, reasons

    def _by_regex(self, value: bytes | None) -> int:
        if value is None or self._regex is None:
            raise TimeError("no value")
        match = self._regex.search(value)
        found = match[self._group] if match else None
        if found is None:
            raise TimeError("the event time regex does not match")
        return self._time_of(found)

    def _by_json(self, value: bytes | None) -> int:
        if value is None:
            raise TimeError("no value")
        try:
            found: Any = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise TimeError(f"not JSON: {error}") from None
        for name in self._path:
            if not isinstance(found, dict) or name not in found:
                raise TimeError(f"no field {self._event_time.field}")
            found = found[name]
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise TimeError(f"field {self._event_time.field} holds no time")
        if not isinstance(found, str):
            layout = self._event_time.format
            try:
                return self._parse(repr(found)) if layout else _bare_number(found)
            except (ValueError, OverflowError):
                raise TimeError(f"field {self._event_time.field} holds no time") from None
        return self._time_of(found)

    def _time_of(self, text: bytes | str) -> int:
        known = self._known.get(text)
        if known is None:
            known = self._parse(text if isinstance(text, str) else text.decode("utf-8", "replace"))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = known
        return known


def column_times(batch: pa.RecordBatch, name: str) -> tuple[pa.Array, dict[int, str]]:
    """Return the times in a column in ms, and why rows have none, by index."""
    times = batch.column(name).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    held = pc.and_(pc.greater_equal(times, _FIRST_MS), pc.less(times, _LAST_MS))
    reasons = {}
    for index in pc.indices_nonzero(pc.invert(pc.fill_null(held, False))).to_pylist():
        found = times[index].as_py()
        none = f"column {name} is null" if found is None else f"no such time: {found} ms"
        reasons[index] = none
    return times, reasons


class HourNames:
    """Names of the directories `date=YYYY-MM-DD/hour=H` for times, in one time zone.

    Hours are numbers, as the libraries of tables and Spark write them: `hour=5`.
    """

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone_of(zone)
        self._known: dict[int, str] = {}

    def of(self, time_ms: int) -> str:
        """Return the name for a time.

        Offsets of zones are multiples of 15 minutes, so names are cached by quarter hour.

        Raises:
            TimeError: no calendar holds it (before year 1 or after 9999).
        """
        quarter = time_ms // 900_000
        name = self._known.get(quarter)
        if name is None:
            try:
                when = (_EPOCH + timedelta(milliseconds=quarter * 900_000)).astimezone(self._zone)
            except OverflowError:
                raise TimeError(f"no such time: {time_ms} ms") from None
            # `%Y` would leave out the zeros of an early year, so that the date could not be read.
            name = self._known[quarter] = f"date={when.date().isoformat()}/hour={when.hour}"
        return name
