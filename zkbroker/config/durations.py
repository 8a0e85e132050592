"""Durations and moments as people write them: `250ms`, `30s`, `15m` or `15min`, `2h`, `1d`; dates.

Invariant: this is the one parser of them; a property whose name says its unit takes a bare number.
"""

import math
import re
from datetime import UTC, datetime

from zkbroker.errors import ConfigError

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\s*(\d+)\s*(" + "|".join(_UNITS_MS) + r")?\s*", re.ASCII)


def parse_duration_ms(text: str, *, bare: bool = True) -> int:
    """Return a time in ms.

    Args:
        text: a number with its unit.
        bare: whether a number without a unit is taken, as ms.

    Raises:
        ConfigError: it is no time.
    """
    match = _DURATION.fullmatch(text)
    if match is None or (match[2] is None and not bare):
        raise ConfigError(
            f"{text!r} is not a duration: give a number with ms, s, m, h or d, as 15m"
        )
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


def parse_instant_ms(text: str) -> int:
    """Return a moment in ms since 1970.

    Args:
        text: ms since 1970, or a date or time of ISO 8601 (`2026-11-23`, `2026-11-23T10:00+01:00`);
            without a zone it is in UTC, as Kafka's tools take it.

    Raises:
        ConfigError: it is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return math.floor(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{text!r} is not a time: give ms since 1970, or a date or time as 2026-11-23 or "
            "2026-11-23T10:00:00+01:00 (in UTC without a zone)"
        ) from None
