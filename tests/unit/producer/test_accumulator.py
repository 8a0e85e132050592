"""The accumulator on a virtual clock, runs and the bounded queue."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkbroker.producer import KeyedMessage, SendFuture
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.batch import Batch, next_sequence
from zkbroker.producer.inbox import Inbox
from zkbroker.producer.run import Run, futures_of, parts_of, whole
from zkbroker.records import Codec, iter_records
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")


def make_run(count: int, *, size: int = 10, topic: str = "t") -> Run:
    run = Run(topic, 0.0, RUNTIME)
    for i in range(count):
        run.records.append((None, b"%d" % i, i, ()))
        run.sizes.append(size)
    return run


def make(**options: float) -> Accumulator:
    given = {"linger_s": 5, "batch_messages": 10, "batch_max_bytes": 1000, "max_in_flight": 1}
    return Accumulator(**(given | options))


def test_a_batch_leaves_when_it_lingered_long_enough():
    accumulator = make()
    accumulator.extend(0, whole(make_run(3)), 100.0)
    assert accumulator.ready(104.9, hurry=False) == []
    assert accumulator.next_deadline(104.9) == 105.0
    (queue,) = accumulator.ready(105.0, hurry=False)
    assert len(accumulator.take(queue)) == 3
    assert accumulator.empty


def test_a_batch_leaves_at_once_with_enough_messages_or_in_a_hurry():
    accumulator = make()
    accumulator.extend(0, whole(make_run(9)), 100.0)
    assert accumulator.ready(100.0, hurry=False) == []
    assert len(accumulator.ready(100.0, hurry=True)) == 1
    accumulator.extend(0, whole(make_run(1)), 100.0)
    assert len(accumulator.ready(100.0, hurry=False)) == 1


def test_a_batch_takes_no_message_beyond_its_bytes_unless_it_is_its_only_one():
    accumulator = make(batch_max_bytes=35)
    accumulator.extend(0, whole(make_run(7)), 0.0)
    accumulator.extend(0, whole(make_run(1, size=500)), 0.0)
    accumulator.extend(0, whole(make_run(1)), 0.0)
    assert [batch.size for batch in accumulator.waiting()] == [30, 30, 10, 500, 10]


def test_the_longest_waiting_partition_leaves_first():
    accumulator = make()
    for partition, came in ((0, 3.0), (1, 1.0), (2, 2.0)):
        accumulator.extend(partition, whole(make_run(1)), came)
    assert [q.partition for q in accumulator.ready(9.0, hurry=True)] == [1, 2, 0]


def test_without_numbers_one_batch_is_in_flight_and_a_failed_one_goes_first_again():
    accumulator = make(batch_max_bytes=20)
    accumulator.extend(0, whole(make_run(6)), 0.0)
    (queue,) = accumulator.ready(0.0, hurry=True)
    first = accumulator.take(queue)
    assert accumulator.ready(0.0, hurry=True) == []
    first.not_before = 7.0
    accumulator.put_back(first)
    assert accumulator.ready(6.9, hurry=True) == []
    assert accumulator.next_deadline(6.9) == 7.0
    assert accumulator.take(accumulator.ready(7.0, hurry=True)[0]) is first
    accumulator.settle(first)
    assert accumulator.take(queue).ordinal > first.ordinal


def test_an_established_partition_has_several_in_flight_and_all_return_in_order():
    accumulator = make(batch_max_bytes=20, max_in_flight=2)
    accumulator.extend(0, whole(make_run(8)), 0.0)
    (queue,) = accumulator.ready(0.0, hurry=True)
    first = accumulator.take(queue)
    assert accumulator.ready(0.0, hurry=True) == []
    queue.established = True
    second = accumulator.take(queue)
    assert accumulator.ready(0.0, hurry=True) == []
    accumulator.put_back(second)
    assert accumulator.ready(0.0, hurry=True) == [], "the first one may still come back"
    accumulator.put_back(first)
    assert accumulator.take(queue) is first
    assert accumulator.ready(0.0, hurry=True) == []
    accumulator.settle(first)
    assert accumulator.take(queue) is second


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(10, 200),
    st.lists(st.booleans(), max_size=60),
)
def test_messages_leave_once_and_in_order_whatever_fails_and_splits(counts, max_bytes, failures):
    accumulator = make(batch_max_bytes=max_bytes)
    sent = []
    number = 0
    for count in counts:
        run = make_run(count)
        for i in range(count):
            run.records[i] = (None, b"%d" % number, 0, ())
            sent.append(b"%d" % number)
            number += 1
        accumulator.extend(0, whole(run), 0.0)
    draws = iter(failures)
    left = []
    while not accumulator.empty:
        batch = accumulator.take(accumulator.ready(0.0, hurry=True)[0])
        if next(draws, False):
            if len(batch) > 1:
                accumulator.put_back(batch, batch.split())
            else:
                accumulator.put_back(batch)
            continue
        accumulator.settle(batch)
        left += [record[1] for record in batch.records]
    assert left == sent


# -- batches and runs


def test_a_built_batch_is_sent_again_with_the_same_bytes():
    batch = Batch("t", 0, 0.0)
    run = make_run(5)
    batch.add(whole(run), run.records, 50)
    batch.number(7, 0, 3)
    data = batch.build(2, Codec.NONE, None)
    assert batch.build(2, Codec.NONE, None) is data
    assert [record.value for record in iter_records(data)] == [b"0", b"1", b"2", b"3", b"4"]
    assert batch.build(1, Codec.NONE, None) != data


def test_halves_of_halves_are_numbered_on_and_resolve_their_own_messages():
    batch = Batch("t", 0, 0.0)
    one, two = make_run(3), make_run(4)
    batch.add(whole(one), one.records, 30)
    batch.add(whole(two), two.records, 40)
    batch.number(7, 0, 2**31 - 2)
    first, second = batch.split()
    third, fourth = second.split()
    assert [b.base_sequence for b in (first, second, third, fourth)] == [2**31 - 2, 1, 1, 3]
    first.succeed(10, -1)
    fourth.succeed(20, 99)
    third.fail(ValueError("no"))
    futures = futures_of([whole(one), whole(two)])
    assert [f.result(0).offset for f in futures[:3]] == [10, 11, 12]
    assert [str(f.exception(0)) for f in futures[3:5]] == ["no", "no"]
    assert [f.result(0) for f in futures[5:]] == [("t", 0, 20, 99), ("t", 0, 21, 99)]


def test_sequence_numbers_wrap():
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(5, 10) == 15


def test_parts_are_the_fewest_that_keep_the_order():
    one, two = make_run(4), make_run(2)
    futures = [SendFuture(one, 0), SendFuture(one, 2), SendFuture(two, 1), SendFuture(one, 1)]
    assert parts_of(futures) == [(one, [0, 2]), (two, [1]), (one, [1])]


def test_waiters_run_once_and_only_for_messages_that_are_done():
    run = make_run(3)
    called = []
    run.add_waiter(0, lambda: called.append(0))
    run.add_waiter(2, lambda: called.append(2))
    run.fail([2], ValueError())
    run.wake()
    assert called == [2]
    run.add_waiter(2, lambda: called.append("late"))
    assert called == [2, "late"]


# -- the bounded queue


def test_the_sender_is_woken_only_when_it_asked_to_be():
    wake = threading.Event()
    inbox = Inbox(RUNTIME, wake, 100, 10_000)
    assert inbox.rest(3)
    for i in range(2):
        inbox.put("t", (None, b"x", i, ()), 10, None, 0)
    assert not wake.is_set()
    inbox.put("t", (None, b"x", 2, ()), 10, None, 0)
    assert wake.is_set()
    assert not inbox.rest(3)
    (run,) = inbox.drain()
    assert len(run.records) == 3
    assert (inbox.open_messages, inbox.open_bytes) == (3, 30)
    inbox.release(3, 30)
    assert (inbox.open_messages, inbox.open_bytes) == (0, 0)


def test_a_single_message_larger_than_the_byte_bound_is_taken_alone():
    inbox = Inbox(RUNTIME, threading.Event(), 100, 50)
    inbox.put("t", (None, b"x" * 80, 0, ()), 80, None, 0)
    with pytest.raises(Exception, match="stayed full"):
        inbox.put("t", (None, b"x", 0, ()), 1, None, 0)


def test_messages_of_one_topic_share_a_run_and_special_ones_are_kept():
    inbox = Inbox(RUNTIME, threading.Event(), 100, 10_000)
    special = KeyedMessage("t", b"y", partition=1)
    inbox.put("t", (None, b"x", 0, ()), 1, None, 0)
    inbox.put("u", (None, b"x", 0, ()), 1, None, 0)
    future = inbox.put("t", (None, b"y", 0, ()), 1, special, 0)
    first, second = inbox.drain()
    assert (first.topic, len(first.records), second.topic) == ("t", 2, "u")
    assert not first.keyless
    assert second.keyless
    assert future.message is special
    assert SendFuture(first, 0).message.message == b"x"
