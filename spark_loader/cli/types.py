"""Types of the values of options: sizes and durations.

Invariant: a text that is not a size or duration, or too small, is refused with the option's name.
"""

from typing import Any

import click

from zkbroker.config.durations import parse_duration_ms
from zkbroker.errors import ConfigError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Bytes(click.ParamType[int]):
    """A number of bytes, with k, m, g or t for powers of 1024.

    Args:
        least: the smallest number that can be given.
    """

    name = "bytes"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        unit = text[-1:] if text[-1:].isalpha() else ""
        number = text.removesuffix(unit)
        if unit not in _UNITS or not number.isdecimal():
            self.fail(f"{value!r} is not a size: give 1000000, 512k, 128m or 1g", param, ctx)
        if int(number) < self._least:
            self.fail(f"{value!r} is too little: give {self._least} or more", param, ctx)
        return int(number) * _UNITS[unit]


class Seconds(click.ParamType[float]):
    """A duration above 0, such as 90s or 15m."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            seconds = parse_duration_ms(str(value)) / 1000
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if not seconds:
            self.fail(f"{value!r} is too little: give 1s or more", param, ctx)
        return seconds
