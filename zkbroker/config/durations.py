"""Times with their unit, as people write them: `250ms`, `30s`, `15m` or `15min`, `2h`, `1d`.

Invariant: this is the one parser of them; a property whose name says its unit takes a bare number.
"""

import re

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
