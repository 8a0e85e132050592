"""Callbacks for changes of the view of a cluster.

Invariant: the task that made a change calls the watchers, without a lock, once the change can be
read; a watcher only sets an event.
"""

from collections.abc import Callable

from zkbroker.runtime import Runtime


class Watchers:
    """The watchers of one cluster."""

    def __init__(self, runtime: Runtime) -> None:
        self._lock = runtime.lock()
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change; returns a function that ends it."""
        with self._lock:
            self._callbacks.append(callback)

        def remove() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return remove

    def notify(self) -> None:
        """Call every watcher."""
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()
