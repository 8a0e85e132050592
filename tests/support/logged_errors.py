"""Collects the errors that background loops log before they go on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector(logging.Handler):
    def __init__(self, *, exceptions_only: bool) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self._exceptions_only = exceptions_only

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None or not self._exceptions_only:
            self.texts.append(f"{record.getMessage()} {error!r}")


@contextmanager
def logged_errors(name: str, *, exceptions_only: bool = False) -> Iterator[list[str]]:
    """Collect the errors of a logger, and do not print them."""
    collector = _Collector(exceptions_only=exceptions_only)
    logger = logging.getLogger(name)
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [collector], False
    logger.setLevel(logging.ERROR)
    try:
        yield collector.texts
    finally:
        logger.handlers, _, logger.propagate = before
        logger.setLevel(before[1])
