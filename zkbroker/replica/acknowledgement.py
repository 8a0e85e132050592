"""Waits of one request for many partitions: until appends are safe, until records are deleted.

Invariant: a request waits once, with one deadline, for all of its partitions.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from zkbroker.errors import NotLeaderForPartition, RequestTimedOut, ZkbrokerError
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.leadership import Leadership
from zkbroker.runtime import Park, Runtime


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """An append that may be acknowledged once it is safe.

    Args:
        leadership: the leadership under which it was made.
        last_offset: the last offset that was appended.
    """

    leadership: Leadership
    last_offset: int


def wait_for_acks(
    appended: Sequence[Unacknowledged],
    acks: int,
    timeout_s: float | None,
    *,
    runtime: Runtime,
    park: Park,
) -> list[ZkbrokerError | None]:
    """Wait until appends may be acknowledged: one wait for all of them.

    Args:
        appended: the appends of one request.
        acks: 1 waits for the log's flush policy, -1 for the replicas in sync as well.
        timeout_s: the limit of the one wait; None for no limit. With 0 only flushes are awaited.
        runtime: to wait with.
        park: entered if there is something to wait for.

    Returns:
        for each append None, or the error that keeps it from being acknowledged. RequestTimedOut
        means that the outcome is not known yet; every other error is final.
    """
    results: list[ZkbrokerError | None] = [None] * len(appended)
    unflushed = [
        at for at, each in enumerate(appended) if not each.leadership.safe(each.last_offset, 1)
    ]
    waiting = dict.fromkeys(range(len(appended))) if acks == -1 else {}

    def replicated() -> bool:
        for at in list(waiting):
            try:
                if not appended[at].leadership.replicated(appended[at].last_offset):
                    continue
            except ZkbrokerError as error:
                results[at] = error
            del waiting[at]
        return not waiting

    if replicated() and not unflushed:
        return results
    operation = DelayedOperation(runtime)
    deadline_ms = None if timeout_s is None else runtime.clock_ms() + timeout_s * 1000
    flush_deadline_ms = deadline_ms if timeout_s else None
    watched = [appended[at] for at in waiting]
    for each in watched:
        each.leadership.waiters.watch_high_watermark(operation, each.last_offset)
    try:
        with park(operation.wake):
            # Each append has requested its flush: together they take as long as the longest.
            for at in unflushed:
                if results[at] is None:
                    results[at] = _flush_failure(appended[at], flush_deadline_ms, runtime)
            if not operation.wait(replicated, deadline_ms):
                for at in waiting:
                    results[at] = results[at] or _not_in_time(appended[at], timeout_s)
    finally:
        for each in watched:
            each.leadership.waiters.unwatch(operation)
    return results


def _flush_failure(
    appended: Unacknowledged, deadline_ms: float | None, runtime: Runtime
) -> ZkbrokerError | None:
    left_s = None if deadline_ms is None else max(0.0, deadline_ms - runtime.clock_ms()) / 1000
    try:
        appended.leadership.wait_flushed(appended.last_offset, left_s)
    except ZkbrokerError as error:
        return error
    return None


def _not_in_time(appended: Unacknowledged, timeout_s: float | None) -> ZkbrokerError:
    """Return the error of an append for which the wait for the replicas timed out.

    A broker whose ZooKeeper session is over may have been replaced as leader without knowing it.
    Its clients must look for the new leader, and RequestTimedOut does not make them do so.
    """
    reason = f"not on every replica in sync within {timeout_s:g} s"
    if appended.leadership.settings.session_over():
        return NotLeaderForPartition(f"{reason}, and ZooKeeper is out of reach")
    return RequestTimedOut(reason)


def wait_for_log_starts(
    deletions: Sequence[tuple[Leadership, int]],
    timeout_s: float,
    live: Callable[[], Collection[int]],
    *,
    runtime: Runtime,
    park: Park,
) -> list[int | ZkbrokerError]:
    """Wait until every live replica has deleted what the leader deleted: one wait for all of them.

    Args:
        deletions: partitions that are led here, each with the offset at which its log is to begin.
        timeout_s: the limit of the one wait.
        live: returns the ids of the live brokers.
        runtime: to wait with.
        park: entered if there is something to wait for.

    Returns:
        for each deletion the low watermark, which is below the requested offset if the time ran
        out; or the error for which this broker cannot tell.
    """
    results: list[int | ZkbrokerError] = [-1] * len(deletions)
    waiting = dict.fromkeys(range(len(deletions)))

    def deleted() -> bool:
        brokers = live()
        for at in list(waiting):
            leadership, start = deletions[at]
            try:
                mark = results[at] = leadership.low_watermark(brokers)
                if mark < start:
                    continue
            except ZkbrokerError as error:
                results[at] = error
            del waiting[at]
        return not waiting

    if deleted():
        return results
    operation = DelayedOperation(runtime)
    watched = [deletions[at][0].waiters for at in waiting]
    for waiters in watched:
        waiters.watch_log_starts(operation)
    try:
        with park(operation.wake):
            operation.wait(deleted, runtime.clock_ms() + timeout_s * 1000)
    finally:
        for waiters in watched:
            waiters.unwatch(operation)
    return results
