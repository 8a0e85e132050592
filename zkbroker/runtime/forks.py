"""Clients in a process that forks.

Invariant: the connections and tasks of a client stay with the process that created it. In the child
of a fork, every client of the parent is switched to refuse calls before other code runs, so that
the child neither writes to the parent's connections nor shuts them down.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A client that a fork copies."""

    def abandon_after_fork(self) -> None:
        """Refuse every call from now on; takes no lock: its holder may not exist in the child."""


_clients: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_installed = False


def abandon_in_child(client: Forkable) -> None:
    """Make a client refuse calls in the child of every fork, as long as it is referenced."""
    global _installed
    _clients.add(client)
    if not _installed:
        _installed = True
        os.register_at_fork(after_in_child=_abandon)


def made_before_fork(kind: str) -> str:
    """Return the error text of a parent's client in the child.

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
