"""The accumulator of batches, on a virtual clock."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.producers import make_run
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.queued_messages import whole


def make(**options: float) -> Accumulator:
    given = {"linger_s": 5, "batch_messages": 10, "batch_max_bytes": 1000, "max_in_flight": 1}
    return Accumulator(**(given | options))


def test_batch_is_ready_after_linger_time():
    accumulator = make()
    accumulator.extend(0, whole(make_run(3)), 100.0)
    assert accumulator.ready(104.9, hurry=False) == []
    assert accumulator.next_deadline(104.9) == 105.0
    (queue,) = accumulator.ready(105.0, hurry=False)
    assert len(accumulator.take(queue)) == 3
    assert accumulator.empty


def test_full_batch_is_ready_at_once_and_hurry_skips_linger():
    accumulator = make()
    accumulator.extend(0, whole(make_run(9)), 100.0)
    assert accumulator.ready(100.0, hurry=False) == []
    assert len(accumulator.ready(100.0, hurry=True)) == 1
    accumulator.extend(0, whole(make_run(1)), 100.0)
    assert len(accumulator.ready(100.0, hurry=False)) == 1


def test_batch_exceeds_byte_limit_only_for_single_message():
    accumulator = make(batch_max_bytes=35)
    accumulator.extend(0, whole(make_run(7)), 0.0)
    accumulator.extend(0, whole(make_run(1, size=500)), 0.0)
    accumulator.extend(0, whole(make_run(1)), 0.0)
    assert [batch.size for batch in accumulator.waiting()] == [30, 30, 10, 500, 10]


def test_partitions_are_ready_in_order_of_age():
    accumulator = make()
    for partition, came in ((0, 3.0), (1, 1.0), (2, 2.0)):
        accumulator.extend(partition, whole(make_run(1)), came)
    assert [q.partition for q in accumulator.ready(9.0, hurry=True)] == [1, 2, 0]


def test_without_sequence_numbers_one_batch_is_in_flight_and_failed_batch_returns_first():
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
    accumulator.remove(first)
    assert accumulator.take(queue).ordinal > first.ordinal


def test_established_partition_has_several_batches_in_flight_and_retries_in_order():
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
    accumulator.remove(first)
    assert accumulator.take(queue) is second


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(10, 200),
    st.lists(st.booleans(), max_size=60),
)
def test_messages_are_sent_once_in_order_across_failures_and_splits(counts, max_bytes, failures):
    accumulator = make(batch_max_bytes=max_bytes)
    sent = []
    number = 0
    for count in counts:
        queued = make_run(count)
        for i in range(count):
            queued.records[i] = (None, b"%d" % number, 0, ())
            sent.append(b"%d" % number)
            number += 1
        accumulator.extend(0, whole(queued), 0.0)
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
        accumulator.remove(batch)
        left += [record[1] for record in batch.records]
    assert left == sent


@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.integers(1, 7))
def test_batch_holds_at_most_the_message_limit(counts, limit):
    accumulator = make(batch_limit_messages=limit, batch_max_bytes=45)
    for count in counts:
        accumulator.extend(0, whole(make_run(count)), 0.0)
    sizes = [len(batch) for batch in accumulator.waiting()]
    # Batches are full by messages or by bytes (four of ten bytes), save the last one.
    assert sizes[:-1] == [min(limit, 4)] * (len(sizes) - 1)
    assert sum(sizes) == sum(counts)
