"""An owner loop over a part of the tree: watches set an event, one task reads and hands on.

                 a watch fires / the connection was away
    (waiting) -------------------------------------------> read again (leaves new watches)
        ^                                                        |
        +------------ hand the view on, in the loop's task <-----+

Invariants: changes that arrive meanwhile coalesce into one more reading; a reading that fails is
repeated when ZooKeeper is back, so that no change is missed for good; after `close` returned, the
callback is not called any more.
"""

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from zkbroker.errors import RegistryError
from zkbroker.registry.nodes import Settable
from zkbroker.registry.session import ZkSession
from zkbroker.runtime import Task

logger = logging.getLogger(__name__)

RETRY_S = 0.2

View = TypeVar("View")


class Mark:
    """A watch that remembers what it was set for; equal to another for the same.

    Args:
        mark: told the key when the watch fires; a method of the loop that reads again.
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
        self._name = name
        self._changed = session.runtime.event()
        self._closed = False
        self._task: Task | None = None
        self._view: View | None = None

    def start(self) -> None:
        """Read the first view, hand it on and keep watching.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._view = self._read(self._changed)
        self._on_change(self._view)
        self._task = self._session.runtime.spawn(self._run, name=self._name)

    def poke(self) -> None:
        """Have it read again soon."""
        self._changed.set()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Stop watching; waits for a callback that runs."""
        self._closed = True
        self._changed.set()
        if self._task is not None:
            self._task.join(timeout_s)

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._closed:
                return
            try:
                view = self._read(self._changed)
                if view != self._view and not self._closed:
                    self._on_change(view)
                    self._view = view
            except Exception as error:
                if self._closed or self._session.closed:
                    return
                # Whatever it was: a view that is not kept up to date any more would go unnoticed.
                foreseen = isinstance(error, RegistryError)
                logger.warning(
                    "watch repeated name=%s error=%s", self._name, error, exc_info=not foreseen
                )
                self._session.wait_connected(RETRY_S)
                self._session.runtime.sleep(RETRY_S)
                self._changed.set()
