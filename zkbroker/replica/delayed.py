"""Operations that wait for a partition: produces and deletions for replicas, fetches for data.

Invariant: an operation waits once, with one deadline, however many partitions it concerns. While it
waits, it holds nothing that another request needs.
"""

from collections.abc import Callable

from zkbroker.runtime import Runtime


class DelayedOperation:
    """A wait that checks its condition whenever it is woken, until that holds or its time is over.

    Args:
        runtime: to wait with, and its clock.
    """

    __slots__ = ("_event", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._event = runtime.event()
        self._runtime = runtime

    def wake(self) -> None:
        """Make it check again. This may be called from any task or thread, and does not wait."""
        self._event.set()

    def wait(self, done: Callable[[], bool], deadline_ms: float | None) -> bool:
        """Wait until `done` returns True; False when the deadline passed first.

        Args:
            done: called once at the beginning, and after each wake-up.
            deadline_ms: on the runtime's clock; None for no deadline.
        """
        while True:
            self._event.clear()
            if done():
                return True
            if not self.sleep(deadline_ms):
                return done()

    def sleep(self, deadline_ms: float | None) -> bool:
        """Wait until it is woken, once; False when the deadline passed first."""
        left_s = None if deadline_ms is None else (deadline_ms - self._runtime.clock_ms()) / 1000
        if (left_s is not None and left_s <= 0) or not self._event.wait(left_s):
            return False
        self._event.clear()
        return True


class Waiters:
    """The operations that wait for one partition; a change of its role wakes all of them."""

    __slots__ = ("appends", "log_starts", "marks")

    def __init__(self) -> None:
        self.appends: dict[DelayedOperation, None] = {}
        self.marks: dict[DelayedOperation, int] = {}
        """Operations, each with the offset that the high watermark has to pass."""
        self.log_starts: dict[DelayedOperation, None] = {}

    def watch_appends(self, operation: DelayedOperation) -> None:
        """Wake an operation at each append."""
        self.appends[operation] = None

    def watch_high_watermark(self, operation: DelayedOperation, offset: int = -1) -> None:
        """Wake an operation when the high watermark passes an offset."""
        self.marks[operation] = offset

    def watch_log_starts(self, operation: DelayedOperation) -> None:
        """Wake an operation when the log start of a follower grows."""
        self.log_starts[operation] = None

    def unwatch(self, operation: DelayedOperation) -> None:
        """Remove an operation from all of these watches."""
        self.log_starts.pop(operation, None)
        self.appends.pop(operation, None)
        self.marks.pop(operation, None)

    def wake(self) -> None:
        """Make every operation check again."""
        for operation in (*self.appends, *self.marks, *self.log_starts):
            operation.wake()

    def appended(self) -> None:
        """Wake the operations that wait for appends."""
        for operation in self.appends:
            operation.wake()

    def advanced(self, high_watermark: int) -> None:
        """Wake the operations whose offset the high watermark has passed."""
        for operation, offset in self.marks.items():
            if offset < high_watermark:
                operation.wake()

    def deleted(self) -> None:
        """Wake the operations that wait for the log starts of followers."""
        for operation in self.log_starts:
            operation.wake()
