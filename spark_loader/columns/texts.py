"""Texts → a typed array, without a loop over the rows.

Invariant: a text is either of the type or an error. Nothing is guessed, and nothing is cut off but
    the digits of a time below a microsecond. A time without a zone is read in the given zone.
"""

import contextlib

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.columns.types import NUMBERED, TIMES, Column

_ZONED = r"[T ]\d.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
_NANOSECONDS = r"(:\d\d\.\d{6})\d{1,3}(\D|$)"
_PER_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_SURE_US = 253_402_300_800_000_000


def from_texts(texts: pa.Array, column: Column, zone: str) -> pa.Array:
    """Return texts as values of a column's type.

    Args:
        texts: strings, null where there is none.
        column: whose type and format they have.
        zone: IANA name, for times without one.

    Raises:
        pa.ArrowInvalid: one of them is not of the type.
    """
    kind = column.type
    if kind == TIMES:
        return _times(texts, column.format, zone)
    if pa.types.is_date(kind) and column.format not in ("", "iso"):
        return _parsed(texts, column.format).cast(kind)
    return texts.cast(kind)


def from_numbers(numbers: pa.Array, column: Column) -> pa.Array:
    """Return numbers since 1970 as times.

    Raises:
        pa.ArrowInvalid: one is beyond the year 9999.
    """
    whole = pc.multiply(numbers.cast(pa.float64()), float(_PER_UNIT_US[column.format]))
    if pc.any(pc.greater_equal(pc.abs(whole), float(_SURE_US))).as_py():
        raise pa.ArrowInvalid(f"a time is outside the calendar: too many {column.format}")
    return pc.round(whole).cast(pa.int64()).cast(TIMES)


def _times(texts: pa.Array, layout: str, zone: str) -> pa.Array:
    if layout in NUMBERED:
        return from_numbers(texts.cast(pa.float64()), Column("", (), TIMES, layout))
    if layout not in ("", "iso"):
        # Times repeat within a second of a log: each distinct text is parsed once.
        encoded = texts.dictionary_encode()
        found = _parsed(encoded.dictionary, layout)
        if "%z" not in layout:
            found = _in_zone(found.cast(pa.timestamp("us")), zone)
        return found.cast(TIMES).take(encoded.indices)
    with contextlib.suppress(pa.ArrowInvalid):
        # Succeeds where each text has a zone of its own.
        return texts.cast(TIMES)
    # Java and Go write nanoseconds, which are cut to microseconds.
    texts = pc.replace_substring_regex(texts, _NANOSECONDS, r"\1\2")
    zoned = pc.fill_null(pc.match_substring_regex(texts, _ZONED), True)
    nothing = pa.scalar(None, pa.string())
    own = pc.if_else(zoned, texts, nothing).cast(TIMES)
    others = pc.if_else(zoned, nothing, texts).cast(pa.timestamp("us"))
    return pc.coalesce(own, _in_zone(others, zone).cast(TIMES))


def _in_zone(times: pa.Array, zone: str) -> pa.Array:
    # An hour that comes twice in autumn is the first; one skipped in spring, the hour after.
    return pc.assume_timezone(times, zone, ambiguous="earliest", nonexistent="latest")


def _parsed(texts: pa.Array, layout: str) -> pa.Array:
    return pc.strptime(texts, format=layout, unit="us", error_is_null=False)
