"""Statistics of a Parquet file's columns, from its footer, in the form of the Delta protocol.

    {"numRecords": 3, "minValues": {"offset": 0, …}, "maxValues": {…}, "nullCount": {"key": 0, …}}

Invariant: every value of the file lies within the bounds; a column without statistics in the footer
    is left out. Times are in milliseconds: the least rounded down, the greatest up.
"""

import datetime as dt
import json
from typing import Any

import pyarrow as pa

# The beginning of a text is enough to skip files.
_MOST_TEXT = 32


def has_order(kind: pa.DataType) -> bool:
    """Return whether readers can skip files by the least and greatest value of a column."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
    )


def statistics(metadata: Any) -> str:
    """Return the statistics of a file from its footer, as JSON."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    unbounded: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name:
                continue
            if found is None or not found.has_null_count:
                unknown.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            try:
                bounds = (found.min, found.max) if found.has_min_max else None
            except (OverflowError, ValueError):
                # The time is outside the calendar.
                bounds = None
            if bounds is not None:
                least[name] = min(least.get(name, bounds[0]), bounds[0])
                greatest[name] = max(greatest.get(name, bounds[1]), bounds[1])
            elif found.num_values:
                unbounded.add(name)
    unbounded |= unknown
    lows = {name: _low(value) for name, value in least.items() if name not in unbounded}
    highs = {name: _high(value) for name, value in greatest.items() if name not in unbounded}
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {name: value for name, value in lows.items() if value is not None},
            "maxValues": {name: value for name, value in highs.items() if value is not None},
            "nullCount": {name: count for name, count in nulls.items() if name not in unknown},
        }
    )


def _low(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return _text(value.replace(microsecond=value.microsecond // 1000 * 1000))
    if isinstance(value, str):
        return value[:_MOST_TEXT]
    return _plain(value)


def _high(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        late = -value.microsecond % 1000
        try:
            return _text(value + dt.timedelta(microseconds=late))
        except OverflowError:
            return None
    if isinstance(value, str):
        # A shortened text would be less than the greatest value.
        return value if len(value) <= _MOST_TEXT else None
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    # Floats are left out: NaN lies between no two bounds.
    return value if isinstance(value, bool | int) else None


def _text(value: dt.datetime) -> str:
    when = value.astimezone(dt.UTC) if value.tzinfo else value
    return when.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
