"""What happens to open producers when the interpreter exits or the process forks.

Invariant: at a normal exit every producer that was not closed is drained, for at most its close
time-out; in the child of a fork every producer of the parent refuses to send, since its connections
and tasks stayed with the parent.
"""

import atexit
import os
from typing import Protocol


class Leaving(Protocol):
    """What can be drained and abandoned."""

    def drain_at_exit(self) -> None:
        """Send what is queued, and close."""

    def abandon_after_fork(self) -> None:
        """Refuse from now on; touch nothing that the parent uses."""


# Strong references: a producer that is dropped without `close` still holds messages to be sent.
_open: dict[int, Leaving] = {}
_installed = False


def enlist(producer: Leaving) -> None:
    """Have a producer drained at exit, and abandoned after a fork."""
    global _installed
    _open[id(producer)] = producer
    if not _installed:
        _installed = True
        atexit.register(_drain)
        os.register_at_fork(after_in_child=_abandon)


def dismiss(producer: Leaving) -> None:
    """Forget a producer that is closed."""
    _open.pop(id(producer), None)


def _drain() -> None:
    for producer in list(_open.values()):
        producer.drain_at_exit()


def _abandon() -> None:
    for producer in list(_open.values()):
        producer.abandon_after_fork()
    _open.clear()
