"""An owner loop over a part of the tree: watches set an event, and one task reads and reports.

                 a watch fires / the connection was lost
    (waiting) -------------------------------------------> read again (sets new watches)
        ^                                                        |
        +------------ report the view, in the loop's task <------+

Invariants: changes during a reading coalesce into one more reading. Nothing is read without a
connection. A failed reading is retried when ZooKeeper is back, so that no change is missed for
good. After `close` has returned, the callback is not called again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from zkbroker.errors import RegistryError
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

RETRY_S = 0.2

View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Mark:
    """A watch with a key; equal to another one with the same key and function.

    Args:
        mark: called with the key when the watch fires.
        key: names the watched node.
    """

    mark: Callable[[Any], None]
    key: object

    def set(self) -> None:
        self.mark(self.key)


class WatchLoop(Generic[View]):
    """Keeps a view of ZooKeeper up to date.

    Args:
        session: a started session.
        read: reads the view; every read in it sets the given watch.
        on_change: called with the first view by `start` itself, and then from the loop's task with
            each view that differs from the previous one.
        name: of the task.
    """

    def __init__(
        self,
        session: ZkSession,
        read: Callable[[Settable], View],
        on_change: Callable[[View], object],
        *,
        name: str,
    ) -> None:
        self._session = session
        self._read = read
        self._on_change = on_change
        self._view: View | None = None
        # A reading is retried after any exception: an outdated view would go unnoticed.
        self._loop = OwnerLoop(
            session.runtime,
            self._refresh,
            name=name,
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(RegistryError,),
            ready=session.wait_connected,
            ended=lambda: session.closed,
        )

    def start(self) -> None:
        """Read the first view, report it and start watching.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._view = self._read(self._loop)
        self._on_change(self._view)
        self._loop.start()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Stop watching; wait for a running callback."""
        self._loop.close(timeout_s)

    def _refresh(self) -> None:
        view = self._read(self._loop)
        if view != self._view and not self._loop.closed:
            self._on_change(view)
            self._view = view
