"""Levels of a process's loggers: `logger.levels=zkbroker.replica:DEBUG,root:WARNING`.

A logger is a module or a package of the broker by its name, `zkbroker.audit`, or `root`, which all
of them are below. A level also applies to the loggers below that have none of their own. The logger
of the ZooKeeper library is left out: its DEBUG lines hold passwords.

Invariant: a logger that writes no lines is refused, so that every level that is set has an effect.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AUDIT = "zkbroker.audit"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SPELLINGS: Mapping[str, str] = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "ERROR"}
"""Levels of Log4j, and the levels of Python that they stand for."""

_PACKAGE = Path(__file__).parents[1]
_NAME = re.compile(r"zkbroker(\.[A-Za-z_][A-Za-z0-9_]*)*")


def is_logger(name: str) -> bool:
    """Whether lines of a broker's log may come from a logger of this name, or from one below."""
    if name in ("root", AUDIT):
        return True
    if not _NAME.fullmatch(name):
        return False
    path = _PACKAGE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


@dataclass(frozen=True, slots=True)
class LoggerLevels:
    """`logger:level` pairs separated by commas."""

    def parse(self, text: str) -> dict[str, str]:
        pairs = (part.rpartition(":") for part in text.split(",") if part.strip())
        return {name.strip(): self._level(level) for name, _, level in pairs}

    def _level(self, text: str) -> str:
        level = text.strip().upper()
        return SPELLINGS.get(level, level)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            is_logger(name) and level in LEVELS for name, level in value.items()
        )

    @property
    def allowed(self) -> str:
        return (
            f"logger:level pairs separated by commas; levels are {', '.join(LEVELS)}, loggers "
            "root, zkbroker.audit and the modules of zkbroker, such as zkbroker.replica"
        )
