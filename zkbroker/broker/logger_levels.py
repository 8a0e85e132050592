"""Gives loggers of the process the levels that the broker's settings name.

Invariant: a logger that is not named any more, or whose broker has stopped, has the level that it
had before.
"""

import logging
from collections.abc import Mapping


class AppliedLevels:
    """The levels that hold now."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def follow(self, levels: Mapping[str, str]) -> None:
        """Set levels; `levels` is logger → name of its level."""
        for name in self._before.keys() - levels.keys():
            _logger(name).setLevel(self._before.pop(name))
        for name, level in levels.items():
            self._before.setdefault(name, _logger(name).level)
            _logger(name).setLevel(level)

    def restore(self) -> None:
        """Give every logger the level that it had before."""
        self.follow({})


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == "root" else name)
