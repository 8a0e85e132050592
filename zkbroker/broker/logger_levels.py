"""Sets the levels of the process's loggers from the broker's settings.

Invariant: a logger that is no longer named, or whose broker has stopped, has its former level.
"""

import logging
from collections.abc import Mapping


class AppliedLevels:
    """The levels that are set at present."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def follow(self, levels: Mapping[str, str]) -> None:
        """Set levels; `levels` is logger → name of its level, empty to restore all."""
        for name in self._before.keys() - levels.keys():
            logging.getLogger(name).setLevel(self._before.pop(name))
        for name, level in levels.items():
            logged = logging.getLogger(name)
            self._before.setdefault(name, logged.level)
            logged.setLevel(level)
