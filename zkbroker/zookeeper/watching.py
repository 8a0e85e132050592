"""An owner loop over a part of the tree: watches set an event, one task reads and hands on.

                 a watch fires / the connection was away
    (waiting) -------------------------------------------> read again (leaves new watches)
        ^                                                        |
        +------------ hand the view on, in the loop's task <-----+

Invariants: changes that arrive meanwhile coalesce into one more reading; nothing is read while
there is no connection; a reading that fails is repeated when ZooKeeper is back, so that no change
is missed for good; after `close` returned, the callback is not called any more.
"""

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from zkbroker.errors import RegistryError
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

RETRY_S = 0.2

View = TypeVar("View")


class Mark:
    """A watch that remembers what it was set for; equal to another for the same.

    Args:
        mark: called with the key when the watch fires; a method of the loop that reads again.
        key: what was read.
    """

    __slots__ = ("_key", "_mark")

    def __init__(self, mark: Callable[[Any], None], key: object) -> None:
        self._mark = mark
        self._key = key

    def set(self) -> None:
        self._mark(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mark) and other._mark == self._mark and other._key == self._key

    def __hash__(self) -> int:
        return hash((self._mark, self._key))


class WatchLoop(Generic[View]):
    """Keep a view of ZooKeeper up to date.

    Args:
        session: a started session.
        read: reads the view; every read in it leaves the given watch.
        on_change: called with the first view by `start` itself, and then from the loop's task with
            each view that differs from the one before.
        name: names the task.
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
        # A view that is not kept up to date any more would go unnoticed: whatever a reading
        # raises, it is repeated.
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
        """Read the first view, hand it on and keep watching.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._view = self._read(self._loop)
        self._on_change(self._view)
        self._loop.start()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Stop watching; waits for a callback that runs."""
        self._loop.close(timeout_s)

    def _refresh(self) -> None:
        view = self._read(self._loop)
        if view != self._view and not self._loop.closed:
            self._on_change(view)
            self._view = view
