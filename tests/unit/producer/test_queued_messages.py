"""Futures and callbacks of queued messages."""

import traceback

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, hold_produce, make_run
from zkbroker.errors import ErrorCode, RequestTimedOut
from zkbroker.producer import KeyedMessage, SendFuture
from zkbroker.producer.queued_messages import parts_of
from zkbroker.protocol import ApiKey

pytestmark = pytest.mark.usefixtures("each_intake")


@RUNTIMES
def test_failing_callback_is_logged_and_messages_are_stored(fake, runtime, caplog):
    def fail(future):
        raise LookupError("of the user's")

    gate = hold_produce(fake)
    with asynchronous(fake, runtime, max_in_flight_requests_per_connection=1) as producer:
        first = producer.send(KeyedMessage("t", b"1"))
        first.add_done_callback(fail)
        gate.set()
        assert first.result(WAIT_S).offset == 0
        assert producer.send(KeyedMessage("t", b"2")).result(WAIT_S).offset == 1
        producer.flush(WAIT_S)
        assert producer.metrics()["unresolved_messages"] == 0
    assert caplog.text.count("callback failed") == 1


@RUNTIMES
def test_no_lock_is_held_during_callback(fake, runtime):
    gate = hold_produce(fake)
    free = []

    def try_lock(future):
        lock = producer._sender._completion._lock
        free.append(lock.acquire(blocking=False))
        if free[-1]:
            lock.release()

    with asynchronous(fake, runtime) as producer:
        producer.send(KeyedMessage("t", b"stored")).add_done_callback(try_lock)
        gate.set()
        producer.flush(WAIT_S)
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: ErrorCode.INVALID_REQUIRED_ACKS
        refused = producer.send(KeyedMessage("t", b"refused"))
        refused.add_done_callback(try_lock)
        assert refused.exception(WAIT_S) is not None
    assert free == [True, True]


@RUNTIMES
def test_result_timeout_says_message_is_still_under_way(fake, runtime):
    gate = hold_produce(fake)
    with asynchronous(fake, runtime) as producer:
        future = producer.send(KeyedMessage("t", b"x"))
        with pytest.raises(RequestTimedOut, match="still under way"):
            future.result(0.05)
        gate.set()
        assert future.result(WAIT_S).offset == 0


@RUNTIMES
def test_callbacks_run_once_when_added_before_or_after_outcome(fake, runtime):
    with asynchronous(fake, runtime, queue_time=50) as producer:
        future = producer.send(KeyedMessage("t", b"x"))
        called = []
        future.add_done_callback(called.append)
        future.result(WAIT_S)
        future.add_done_callback(called.append)
        producer.flush(WAIT_S)
    assert called == [future, future]


def test_parts_of_returns_fewest_parts_in_order():
    one, two = make_run(4), make_run(2)
    futures = [SendFuture(one, 0), SendFuture(one, 2), SendFuture(two, 1), SendFuture(one, 1)]
    assert parts_of(futures) == [(one, [0, 2]), (two, [1]), (one, [1])]


def test_waiters_run_once_for_resolved_messages():
    queued = make_run(3)
    called = []
    queued.add_waiter(0, lambda: called.append(0))
    queued.add_waiter(2, lambda: called.append(2))
    queued.fail([2], ValueError())
    queued.wake()
    assert called == [2]
    queued.add_waiter(2, lambda: called.append("late"))
    assert called == [2, "late"]


def test_error_of_many_messages_keeps_no_frames_of_earlier_results():
    queued, error, frames = make_run(3), ValueError(), set()
    queued.fail(range(3), error)
    for index in range(3):
        with pytest.raises(ValueError):
            SendFuture(queued, index).result()
        frames.add(len(list(traceback.walk_tb(error.__traceback__))))
    assert len(frames) == 1
