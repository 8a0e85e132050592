"""Parses where reading begins, or a group goes on: a text of the page.

    earliest  latest  123 (an offset)  -50 (so many before the end)  +50 (so many further)
    @2026-11-23  @2026-11-23T10:00:00+01:00  @1795446755254 (milliseconds)

A time without a zone is UTC.
"""

from dataclasses import dataclass
from enum import Enum

from zkbroker.config.durations import parse_instant_ms
from zkbroker.console.requests import bad
from zkbroker.errors import ConfigError

_MOST = 2**63 - 1
_TOO_LATE_MS = 10**15


class Begin(Enum):
    """The reference of a start."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BACK = "back"
    ON = "on"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """A start. Args: value is an offset, a number of messages, or ms since 1970."""

    begin: Begin
    value: int = 0


def parse_start(text: str) -> Start:
    """Read a start.

    Raises:
        Refused: the text has another form.
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return Start(Begin(text))
    if text.startswith("@"):
        return Start(Begin.TIME, _time_ms(text[1:].strip()))
    sign, digits = text[:1], text[1:] if text[:1] in "+-" else text
    if text and digits.isascii() and digits.isdecimal() and len(digits) <= 19:
        number = int(digits)
        if number <= _MOST:
            begin = {"-": Begin.BACK, "+": Begin.ON}.get(sign, Begin.OFFSET)
            return Start(begin, number)
    raise bad(
        "from has to be earliest, latest, an offset, -N messages before the end, or a time as in "
        "@2026-11-23T10:00:00Z"
    )


def _time_ms(text: str) -> int:
    try:
        time_ms = max(0, parse_instant_ms(text))
    except ConfigError:
        time_ms = _MOST
    if time_ms >= _TOO_LATE_MS:
        raise bad(f"@{text[:40]} is not a time: give one as in @2026-11-23T10:00:00Z")
    return time_ms
