"""Open producers at the exit of the interpreter.

Invariant: at a normal exit every producer that was not closed is drained, for at most its close
time-out. The child of a fork drains none: the parent sends its own messages.
"""

import atexit
import os
from typing import Protocol


class Leaving(Protocol):
    """A producer that can be drained."""

    def drain_at_exit(self) -> None:
        """Send the queued messages, and close."""


# Strong references: a producer that is dropped without `close` still holds messages to be sent.
_open: dict[int, Leaving] = {}
_installed = False


def enlist(producer: Leaving) -> None:
    """Drain a producer at exit."""
    global _installed
    _open[id(producer)] = producer
    if not _installed:
        _installed = True
        atexit.register(_drain)
        os.register_at_fork(after_in_child=_open.clear)


def dismiss(producer: Leaving) -> None:
    """Forget a producer that is closed."""
    _open.pop(id(producer), None)


def _drain() -> None:
    for producer in list(_open.values()):
        producer.drain_at_exit()
