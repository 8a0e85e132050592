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
from contextlib import ExitStack, contextmanager

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import now_text
from spark_loader.storage.files import LakeFileSystem, LockedError

_GATE = "lock"
_TOPICS = "locks"
_OPTIMIZING = "optimize.lock"
_PATIENCE_S = 10.0
_POLL_S = 0.1


@contextmanager
def beginning(
    checkpoints: Checkpoints, filesystem: LakeFileSystem, patience_s: float = _PATIENCE_S
) -> Iterator[None]:
    """Keep other loads from beginning, and every command out.

    Raises:
        LoadError: another one holds the lock for longer than `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_locked(checkpoints, filesystem, _GATE))
                break
            except LockedError as error:
                if time.monotonic() >= deadline:
                    raise LoadError(
                        f"another load or command works on this output: {error}"
                    ) from None
                time.sleep(_POLL_S)
        yield


@contextmanager
def loading(
    checkpoints: Checkpoints, filesystem: LakeFileSystem, topics: Iterable[str]
) -> Iterator[None]:
    """Keep every other load of these topics out, and every command; call within `beginning` only.

    Raises:
        LoadError: one is running.
    """
    with ExitStack() as stack:
        for topic in sorted(topics):
            try:
                stack.enter_context(_locked(checkpoints, filesystem, f"{_TOPICS}/{topic}"))
            except LockedError as error:
                raise LoadError(
                    f"a load of topic {topic} into this output is running: {error}"
                ) from None
        yield


@contextmanager
def alone(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Iterator[None]:
    """Keep every load and every other command out of the directory.

    Raises:
        LoadError: one is running.
    """
    with beginning(checkpoints, filesystem):
        names = filesystem.names(checkpoints.path(_TOPICS))
        topics = [name for name in names if not name.startswith(".")]
        with loading(checkpoints, filesystem, topics):
            yield


@contextmanager
def optimizing(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Iterator[None]:
    """Keep every other optimize and vacuum out; raise LoadError when one is running."""
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(checkpoints, filesystem, _OPTIMIZING))
        except LockedError as error:
            raise LoadError(f"an optimize of this output is running: {error}") from None
        yield


@contextmanager
def _locked(checkpoints: Checkpoints, filesystem: LakeFileSystem, name: str) -> Iterator[None]:
    owner = f"{socket.gethostname()} process {os.getpid()} since {now_text()}"
    with filesystem.lock(checkpoints.path(name), owner):
        yield
