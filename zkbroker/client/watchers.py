"""Callbacks for changes of the view of a cluster.

Invariant: a watcher is called by the task that made the change, without a lock, after the change
is there to be read; it only sets an event.
"""

from collections.abc import Callable

from zkbroker.runtime import Runtime


class Watchers:
    """The watchers of one cluster."""

    def __init__(self, runtime: Runtime) -> None:
        self._lock = runtime.lock()
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change; returns what ends that."""
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
