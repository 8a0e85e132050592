"""Operations that wait for partitions: produces and deletions for replicas, fetches for data.

Invariant: an operation waits once, with one deadline, however many partitions it is about; while it
waits it holds nothing that another request needs.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from zkbroker.errors import ZkbrokerError
from zkbroker.runtime import Park, Runtime

if TYPE_CHECKING:
    from zkbroker.replica.partition import Partition, Unacknowledged


class DelayedOperation:
    """Something that looks again whenever it is woken, until it is done or its time is over.

    Args:
        runtime: to wait with.
        clock: monotonic seconds.
    """

    __slots__ = ("_clock", "_event")

    def __init__(self, runtime: Runtime, clock: Callable[[], float]) -> None:
        self._event = runtime.event()
        self._clock = clock

    def wake(self) -> None:
        """Have it look again; it may be called from anywhere, and does not wait."""
        self._event.set()

    def wait(self, done: Callable[[], bool], deadline: float | None) -> bool:
        """Wait until `done` says so; False when the deadline passed first.

        Args:
            done: looked at once at the beginning, and each time it is woken.
            deadline: on the clock; None for none.
        """
        while True:
            self._event.clear()
            if done():
                return True
            if not self.sleep(deadline):
                return done()

    def sleep(self, deadline: float | None) -> bool:
        """Wait until it is woken, once; False when the deadline passed first."""
        left_s = None if deadline is None else deadline - self._clock()
        if (left_s is not None and left_s <= 0) or not self._event.wait(left_s):
            return False
        self._event.clear()
        return True


def wait_for_acks(
    appended: Sequence["Unacknowledged"],
    acks: int,
    timeout_s: float | None,
    *,
    runtime: Runtime,
    clock: Callable[[], float],
    park: Park,
) -> list[ZkbrokerError | None]:
    """Wait until appends may be acknowledged: one wait for all of them.

    Args:
        appended: the appends of one request.
        acks: 1 asks for the log's flush policy, -1 for the replicas in sync, too.
        timeout_s: for all of them together; None for none.
        runtime: to wait with.
        clock: monotonic seconds.
        park: entered if there is something to wait for.

    Returns:
        for each append None, or why it is not acknowledged; RequestTimedOut says that it is not
        known yet, and all others are final here.
    """
    results: list[ZkbrokerError | None] = [None] * len(appended)
    unflushed = [at for at, each in enumerate(appended) if not each.flushed]
    waiting = dict.fromkeys(range(len(appended))) if acks == -1 else {}

    def replicated() -> bool:
        for at in list(waiting):
            try:
                if not appended[at].replicated():
                    continue
            except ZkbrokerError as error:
                results[at] = error
            del waiting[at]
        return not waiting

    if replicated() and not unflushed:
        return results
    operation = DelayedOperation(runtime, clock)
    deadline = None if timeout_s is None else clock() + timeout_s
    watched = [appended[at] for at in waiting]
    for each in watched:
        each.partition.watch_high_watermark(operation, each.last_offset)
    try:
        with park(operation.wake):
            # Every flush was asked for by its append: together they take as long as the longest.
            for at in unflushed:
                if results[at] is None:
                    results[at] = _flush_failure(appended[at], deadline, clock)
            if not operation.wait(replicated, deadline):
                for at in waiting:
                    results[at] = results[at] or appended[at].not_in_time(timeout_s)
    finally:
        for each in watched:
            each.partition.unwatch(operation)
    return results


def wait_for_log_starts(
    deletions: Sequence[tuple["Partition", int]],
    timeout_s: float,
    live: Callable[[], Collection[int]],
    *,
    runtime: Runtime,
    clock: Callable[[], float],
    park: Park,
) -> list[int | ZkbrokerError]:
    """Wait until every live replica has deleted what the leader has: one wait for all of them.

    Args:
        deletions: partitions that are led here, and where their logs are to begin.
        timeout_s: for all of them together.
        live: returns the brokers that live.
        runtime: to wait with.
        clock: monotonic seconds.
        park: entered if there is something to wait for.

    Returns:
        for each the low watermark, which is lower than wanted where the time was too short; or why
        it will not be known here.
    """
    results: list[int | ZkbrokerError] = [-1] * len(deletions)
    waiting = dict.fromkeys(range(len(deletions)))

    def deleted() -> bool:
        brokers = live()
        for at in list(waiting):
            partition, start = deletions[at]
            try:
                mark = results[at] = partition.low_watermark(brokers)
                if mark < start:
                    continue
            except ZkbrokerError as error:
                results[at] = error
            del waiting[at]
        return not waiting

    if deleted():
        return results
    operation = DelayedOperation(runtime, clock)
    deadline = clock() + timeout_s
    watched = [deletions[at][0] for at in waiting]
    for each in watched:
        each.watch_log_starts(operation)
    try:
        with park(operation.wake):
            operation.wait(deleted, deadline)
    finally:
        for each in watched:
            each.unwatch(operation)
    return results


def _flush_failure(
    appended: "Unacknowledged", deadline: float | None, clock: Callable[[], float]
) -> ZkbrokerError | None:
    try:
        appended.wait_flushed(None if deadline is None else max(0.0, deadline - clock()))
    except ZkbrokerError as error:
        return error
    return None
