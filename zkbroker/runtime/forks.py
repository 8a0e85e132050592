"""Clients in a process that forks.

Invariant: the connections and tasks of a client stay with the process that made it. In the child of
a fork every client of the parent is made to refuse before other code runs there, so that the child
neither writes to the parent's connections nor shuts them down.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A client that a fork copies."""

    def abandon_after_fork(self) -> None:
        """Refuse from now on; takes no lock, since the task that held it may not live on."""


_clients: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_installed = False


def abandon_in_child(client: Forkable) -> None:
    """Have a client refuse in the child of every fork, for as long as it is referred to."""
    global _installed
    _clients.add(client)
    if not _installed:
        _installed = True
        os.register_at_fork(after_in_child=_abandon)


def made_before_fork(kind: str) -> str:
    """Return what a client of the parent says in the child.

    Args:
        kind: `producer`, `consumer`.
    """
    return (
        f"this {kind} was made before the fork of process {os.getpid()}: its connections stayed "
        f"with the parent; make a {kind} in the child"
    )


def _abandon() -> None:
    for client in list(_clients):
        client.abandon_after_fork()
    _clients.clear()
