"""Locks of an output directory: which loads and commands may change it at the same time.

    _zkbroker/lock             held by a command while it changes something, by a load while it
    begins _zkbroker/locks/TOPIC      held by a load of that topic until it ends
    _zkbroker/optimize.lock    held by an optimize, beside loads, or a vacuum

Invariant: loads of different topics run side by side. Loads of the same topic do not, and no
    command that moves positions runs beside a load. If a lock is lost, conflicting commits are
    still refused, by the positions that they start from.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import now_text
from spark_loader.storage.files import LockedError

_PATIENCE_S = 10.0
_POLL_S = 0.1


def beginning(
    checkpoints: Checkpoints, patience_s: float = _PATIENCE_S
) -> AbstractContextManager[None]:
    """Keep other loads from beginning, and every command out.

    Raises:
        LoadError: another one holds the lock for longer than `patience_s`.
    """
    refusal = "another load or command works on this output"
    return _held(checkpoints, "lock", refusal, patience_s)


@contextmanager
def loading(checkpoints: Checkpoints, topics: Iterable[str]) -> Iterator[None]:
    """Keep every other load of these topics out, and every command; call within `beginning` only.

    Raises:
        LoadError: one is running.
    """
    with ExitStack() as stack:
        for topic in sorted(topics):
            refusal = f"a load of topic {topic} into this output is running"
            stack.enter_context(_held(checkpoints, f"locks/{topic}", refusal))
        yield


@contextmanager
def alone(checkpoints: Checkpoints) -> Iterator[None]:
    """Keep every load and every other command out of the directory.

    Raises:
        LoadError: one is running.
    """
    with beginning(checkpoints):
        names = checkpoints.filesystem.names(checkpoints.path("locks"))
        with loading(checkpoints, [name for name in names if not name.startswith(".")]):
            yield


def optimizing(checkpoints: Checkpoints) -> AbstractContextManager[None]:
    """Keep every other optimize and vacuum out; raise LoadError when one is running."""
    return _held(checkpoints, "optimize.lock", "an optimize of this output is running")


@contextmanager
def _held(
    checkpoints: Checkpoints, name: str, refusal: str, patience_s: float = 0.0
) -> Iterator[None]:
    """Hold a lock; raise LoadError if another holds it for longer than `patience_s`."""
    deadline = time.monotonic() + patience_s
    with ExitStack() as stack:
        while True:
            owner = f"{socket.gethostname()} process {os.getpid()} since {now_text()}"
            lock = checkpoints.filesystem.lock(checkpoints.path(name), owner)
            try:
                stack.enter_context(lock)
                break
            except LockedError as error:
                if time.monotonic() >= deadline:
                    raise LoadError(f"{refusal}: {error}") from None
                time.sleep(_POLL_S)
        yield
