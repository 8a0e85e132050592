"""Where to start and stop reading, in kcat's words.

    beginning | end | stored | 42 (that offset) | -10 (ten before the end) | s@MS | e@MS

`s@MS` starts at the first message with that time (milliseconds since 1970) or a later one, `e@MS`
stops before it.
"""

from dataclasses import dataclass
from enum import Enum

from zkbroker.errors import ConfigError


class Anchor(Enum):
    """What a position is counted from."""

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
    """Where to start, and where to stop if anywhere."""

    start: Position
    stop: Position | None = None


_ALLOWED = "give beginning, end, stored, an offset, -N for N before the end, s@MS or e@MS"
_NAMED = {
    "beginning": Anchor.BEGINNING,
    "earliest": Anchor.BEGINNING,
    "smallest": Anchor.BEGINNING,
    "end": Anchor.END,
    "latest": Anchor.END,
    "largest": Anchor.END,
    "stored": Anchor.STORED,
}


def parse_range(texts: tuple[str, ...], default: Anchor = Anchor.BEGINNING) -> Range:
    """Combine the `-o` options of a command line.

    Args:
        texts: each one position; of two starts the later one counts.
        default: where to start without any.

    Raises:
        ConfigError: a text is none of the forms.
    """
    start = Position(default)
    stop = None
    for text in texts:
        if text.startswith("e@"):
            stop = Position(Anchor.TIME, _number(text[2:], text))
        elif text.startswith("s@"):
            start = Position(Anchor.TIME, _number(text[2:], text))
        elif text in _NAMED:
            start = Position(_NAMED[text])
        elif text.startswith("-"):
            start = Position(Anchor.END, _number(text[1:], text))
        else:
            start = Position(Anchor.OFFSET, _number(text, text))
    return Range(start, stop)


def _number(digits: str, text: str) -> int:
    if not digits.isascii() or not digits.isdigit():
        raise ConfigError(f"offset {text!r} is not allowed: {_ALLOWED}")
    return int(digits)
