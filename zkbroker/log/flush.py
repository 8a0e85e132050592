"""Group commit: one fsync for everybody who waits.

Invariant: `durable` is an end offset below which every message is on stable storage; it only
grows. While an fsync runs, those who come wait for the next one, which covers all of them. A
failed fsync is never tried again as if nothing had happened: it fails everybody, for good.
"""

from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.errors import RequestTimedOut, StorageError
from zkbroker.runtime import Event, Runtime


@dataclass(slots=True)
class _Waiter:
    target: int
    event: Event
    failure: StorageError | None = None


class GroupCommit:
    """Runs a flush function for as long as somebody wants more on disk than is."""

    def __init__(
        self,
        runtime: Runtime,
        flush: Callable[[], int],
        *,
        usable: Callable[[], bool],
        durable: int,
        name: str,
    ) -> None:
        """Make one for a log.

        Args:
            runtime: waits and spawns.
            flush: brings the log as it is to stable storage, off the event loop, and returns the
                end offset that is stable from now on; raises StorageError.
            usable: whether a flush that failed leaves the log usable, because the disk was never
                asked; then only those who waited for it fail.
            durable: what is stable already.
            name: of the task that flushes.
        """
        self._runtime = runtime
        self._flush = flush
        self._usable = usable
        self._name = name
        self._lock = runtime.lock()
        self._waiters: list[_Waiter] = []
        self._wanted = durable
        self._running = False
        self._failure: StorageError | None = None
        self.durable = durable

    def advance(self, durable: int) -> None:
        """Note that somebody else brought everything below `durable` to stable storage."""
        with self._lock:
            self.durable = max(self.durable, durable)

    def request(self, target: int) -> None:
        """Have everything below `target` brought to stable storage; does not wait."""
        with self._lock:
            self._wanted = max(self._wanted, target)
            if self._running or self._failure is not None or self.durable >= target:
                return
            self._running = True
        self._runtime.spawn(self._run, name=self._name)

    def wait(self, target: int, timeout_s: float | None = None) -> None:
        """Wait until everything below `target` is on stable storage.

        Raises:
            StorageError: it never will be.
            RequestTimedOut: not within `timeout_s`.
        """
        with self._lock:
            if self.durable >= target:
                return
            if self._failure is not None:
                raise self._failure
            waiter = _Waiter(target, self._runtime.event())
            self._waiters.append(waiter)
        self.request(target)
        if not waiter.event.wait(timeout_s):
            raise RequestTimedOut(f"not on disk within {timeout_s} s")
        if waiter.failure is not None:
            raise waiter.failure

    def fail(self, error: StorageError) -> None:
        """Fail everybody who waits and will wait."""
        with self._lock:
            if self._failure is None:
                self._failure = error
        self._fail_waiters(error)

    def _fail_waiters(self, error: StorageError) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.failure = error
            waiter.event.set()

    def _run(self) -> None:
        while True:
            try:
                durable = self._flush()
            except StorageError as error:
                if self._usable():
                    with self._lock:
                        self._running = False
                        self._wanted = self.durable
                    self._fail_waiters(error)
                else:
                    self.fail(error)
                return
            except BaseException as error:
                # Nobody may wait for ever for a task that is no more.
                self.fail(StorageError(f"the flush ended with {error!r}"))
                raise
            with self._lock:
                self.durable = max(self.durable, durable)
                done = [waiter for waiter in self._waiters if waiter.target <= self.durable]
                self._waiters = [each for each in self._waiters if each.target > self.durable]
                self._running = self._failure is None and self._wanted > self.durable
                running = self._running
            for waiter in done:
                waiter.event.set()
            if not running:
                return
