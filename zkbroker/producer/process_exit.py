"""Open producers at the exit of the interpreter.

Invariant: at a normal exit every producer that was not closed is drained, for at most its close
time-out. The child of a fork drains none: the parent sends its own messages.
"""

import atexit
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkbroker.producer.producer import Producer


# Strong references: a producer that is dropped without `close` still holds messages to be sent.
_open: "dict[int, Producer]" = {}
_installed = False


def enlist(producer: "Producer") -> None:
    """Drain a producer at exit."""
    global _installed
    _open[id(producer)] = producer
    if not _installed:
        _installed = True
        atexit.register(_drain)
        os.register_at_fork(after_in_child=_open.clear)


def dismiss(producer: "Producer") -> None:
    """Forget a producer that is closed."""
    _open.pop(id(producer), None)


def _drain() -> None:
    for producer in list(_open.values()):
        producer.drain_at_exit()
