"""Log lines of the long-running commands, on standard error.

Invariant: one record is one line, whatever its texts contain; only a traceback has more lines, and
    those are indented.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from zkbroker.cli.foreign_text import CONTINUATION, harmless, harmless_json, harmless_lines

F = TypeVar("F", bound=Callable[..., Any])


class TextFormatter(logging.Formatter):
    """One line a record: time, level, logger, message; a traceback follows, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return harmless(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return CONTINUATION + harmless_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return CONTINUATION + harmless_lines(stack_info)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message` and, if any, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{created}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return harmless_json(json.dumps(fields, ensure_ascii=False))


def log_options(command: F) -> F:
    """Add `--log-level` and `--log-format` to a command."""
    command = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the log lines on standard error.",
    )(command)
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="Lowest level of the log lines.",
    )(command)


def configure_logging(level: str, form: str) -> None:
    """Send log lines of this process to standard error."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # It logs each ping and retry at INFO.
    logging.getLogger("kazoo").setLevel(logging.WARNING)
