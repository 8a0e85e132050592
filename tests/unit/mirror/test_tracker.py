"""Arrived positions, open bytes and offset syncs."""

import threading

from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.mirror.tracker import Place, Tracker
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")


class Sink:
    queued = 0

    def put(self, chunk):
        pass


def partition(number: int = 0) -> ConsumedPartition:
    return ConsumedPartition("t", number, Sink(), RUNTIME.lock(), 1000, 0)


def chunk(of: ConsumedPartition, offset: int, next_offset: int, size: int = 10) -> Chunk:
    return Chunk(of, of.progress, offset, next_offset, b"x" * size)


def make() -> Tracker:
    return Tracker(RUNTIME, lambda: None)


def test_position_arrives_after_all_earlier_chunks():
    tracker, one = make(), partition()
    first, second = tracker.take(chunk(one, 0, 5)), tracker.take(chunk(one, 5, 9))
    second.finish()
    assert tracker.arrived() == {}
    first.add()
    first.finish()
    assert tracker.arrived() == {}
    first.finish()
    assert tracker.arrived() == {("t", 0): 9}


def test_chunk_that_is_put_back_is_taken_again_as_if_for_the_first_time():
    tracker, one = make(), partition()
    first = tracker.take(chunk(one, 0, 5))
    first.put_back()
    assert (tracker.open_bytes, tracker.arrived()) == (0, {})
    again = tracker.take(chunk(one, 0, 5))
    assert again.first
    later = tracker.take(chunk(one, 5, 9))
    later.put_back()
    again.finish()
    assert tracker.arrived() == {("t", 0): 5}
    assert tracker.wait_done(None, 0)
    assert not tracker.take(chunk(one, 5, 9)).first


def test_reported_position_is_not_returned_again():
    tracker, one = make(), partition()
    tracker.take(chunk(one, 0, 5)).finish()
    tracker.reported({("t", 0): 5})
    assert tracker.arrived() == {}
    tracker.take(chunk(one, 5, 6)).finish()
    assert tracker.arrived() == {("t", 0): 6}


def test_responses_of_earlier_reading_are_ignored():
    tracker, one = make(), partition()
    old = tracker.take(chunk(one, 50, 90))
    one.seek(10)
    new = tracker.take(chunk(one, 10, 20))
    old.finish()
    assert tracker.arrived() == {}
    new.finish()
    assert tracker.arrived() == {("t", 0): 20}


def test_open_bytes_of_lost_partition_count_until_done():
    tracker, one = make(), partition()
    ticket = tracker.take(chunk(one, 0, 5, size=300))
    tracker.drop([("t", 0)])
    assert tracker.open_bytes == 300
    ticket.finish()
    assert tracker.open_bytes == 0
    assert tracker.arrived() == {}


def test_wait_ends_when_given_partitions_are_done():
    tracker, one, two = make(), partition(0), partition(1)
    ticket, other = tracker.take(chunk(one, 0, 5)), tracker.take(chunk(two, 0, 5))
    assert not tracker.wait_done([("t", 0)], 0)
    thread = threading.Timer(0.01, ticket.finish)
    thread.start()
    assert tracker.wait_done([("t", 0)], 10)
    assert not tracker.wait_done(None, 0)
    other.finish()
    assert tracker.wait_done(None, 0)


def test_syncs_are_returned_once_from_first_nonempty_chunk():
    tracker, one = make(), partition()
    reset = tracker.take(Chunk(one, one.progress, 3, 3))
    reset.finish()
    first = tracker.take(chunk(one, 3, 7))
    assert (reset.first, first.first) == (True, True)
    first.begins_at(3, Place("t", 0, 100))
    first.add()
    first.finish(Place("t", 0, 102))
    first.finish(Place("t", 0, 101))  # the largest end counts, in any order of the responses
    assert not tracker.take(chunk(one, 7, 8)).first
    assert tracker.take_syncs() == [
        (("t", 0), 3, Place("t", 0, 100)),
        (("t", 0), 7, Place("t", 0, 102)),
    ]
    assert tracker.take_syncs() == []
