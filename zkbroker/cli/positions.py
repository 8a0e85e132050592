"""Where to start and stop reading, in kcat's syntax.

    beginning | end | stored | 42 (that offset) | -10 (ten before the end) | s@TIME | e@TIME

`s@TIME` starts at the first message with that time or a later one, `e@TIME` stops before it. A time
is in milliseconds since 1970, or a date of ISO 8601.
"""

from dataclasses import dataclass
from enum import Enum

from zkbroker.config.durations import parse_instant_ms
from zkbroker.errors import ConfigError


class Anchor(Enum):
    """The reference of a position."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition.

    Args:
        anchor: what `value` counts from.
        value: the offset, the messages before the end (END), or the time in milliseconds.
    """

    anchor: Anchor
    value: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """Where to start, and where to stop, if at all."""

    start: Position
    stop: Position | None = None


_ALLOWED = "give beginning, end, stored, an offset, -N for N before the end, s@TIME or e@TIME"
_NAMED = {
    "beginning": Anchor.BEGINNING,
    "earliest": Anchor.BEGINNING,
    "smallest": Anchor.BEGINNING,
    "end": Anchor.END,
    "latest": Anchor.END,
    "largest": Anchor.END,
    "stored": Anchor.STORED,
}


def parse_range(texts: tuple[str, ...]) -> Range:
    """Combine the `-o` options; the last start counts, and the default is the beginning.

    Raises:
        ConfigError: a text is none of the forms.
    """
    start = Position(Anchor.BEGINNING)
    stop = None
    for text in texts:
        if text.startswith("e@"):
            stop = Position(Anchor.TIME, _time(text))
        elif text.startswith("s@"):
            start = Position(Anchor.TIME, _time(text))
        elif text in _NAMED:
            start = Position(_NAMED[text])
        elif text.startswith("-"):
            start = Position(Anchor.END, _number(text[1:], text))
        else:
            start = Position(Anchor.OFFSET, _number(text, text))
    return Range(start, stop)


def _time(text: str) -> int:
    try:
        return parse_instant_ms(text[2:])
    except ConfigError as error:
        raise ConfigError(f"offset {text!r} is not allowed: {error}; {_ALLOWED}") from None


def _number(digits: str, text: str) -> int:
    if not digits.isascii() or not digits.isdigit():
        raise ConfigError(f"offset {text!r} is not allowed: {_ALLOWED}")
    return int(digits)
