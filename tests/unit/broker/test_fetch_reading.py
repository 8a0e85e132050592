"""One read of the partitions of a fetch, and whether another one is needed."""

import pytest

from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.broker.handlers.fetch_reading import Reading
from zkbroker.replica.reads import ReadEnd


@pytest.fixture
def partition():
    made = make_partition(log=EntryLog())
    made.become_leader(decided(1, 0, (1, 2), (1, 2)))
    return made


def read_once(partition):
    leadership = partition.leading
    row = (0, 0, leadership.high_watermark, -1, 0, None, 0, b"")
    end = leadership.end_for(ReadEnd.LOG_END)
    return Reading([("t", [row])], 0, [], False, [leadership], [end])


def test_empty_reading_is_refreshed_without_another_read(partition):
    partition.leading.append(b"x")
    reading = read_once(partition)
    ((_, rows),) = reading.topics
    assert rows[0][2] == 0
    partition.leading.record_follower_fetch(2, 1, 0, 1)
    assert reading.refresh(ReadEnd.LOG_END)
    assert rows[0][2] == 1


def test_append_requires_another_read(partition):
    reading = read_once(partition)
    assert not reading.grown(ReadEnd.LOG_END)
    partition.leading.append(b"x")
    assert reading.grown(ReadEnd.LOG_END)
    assert not reading.grown(ReadEnd.HIGH_WATERMARK), "consumers do not see it yet"
    assert not reading.refresh(ReadEnd.LOG_END)


def test_ended_leadership_requires_another_read(partition):
    reading = read_once(partition)
    partition.become_follower(decided(2, 1, (1, 2), (1, 2)))
    assert reading.grown(ReadEnd.LOG_END)
    assert not reading.refresh(ReadEnd.LOG_END)


def test_reading_with_records_or_errors_is_not_refreshed(partition):
    reading = read_once(partition)
    reading.size = 10
    assert not reading.refresh(ReadEnd.LOG_END)
    reading = read_once(partition)
    reading.failed = True
    assert not reading.refresh(ReadEnd.LOG_END)
