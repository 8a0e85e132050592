"""At-least-once commits: only positions whose messages are stored."""

import pytest

from tests.unit.mirror.test_tracker import chunk, make, partition
from zkbroker.consumer import CommitFailed, NotOwned
from zkbroker.errors import RegistryError
from zkbroker.mirror.commits import FlushThenCommit

KEY = ("t", 0)


class Source:
    def __init__(self, error=None):
        self.commits = []
        self.error = error

    def commit(self, positions):
        if self.error is not None:
            raise self.error
        self.commits.append(dict(positions))


def test_arrived_positions_are_committed_once():
    source, tracker, one = Source(), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    tracker.take(chunk(one, 5, 9))
    assert step.commit() == {KEY: 5}
    assert step.commit() == {}
    assert source.commits == [{KEY: 5}]


def test_release_waits_for_responses_within_limit():
    source, tracker, one = Source(), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0.01)
    tracker.take(chunk(one, 0, 5)).finish()
    tracker.take(chunk(one, 5, 9))
    step.release([KEY])
    assert source.commits == [{KEY: 5}]


def test_failed_commit_is_retried():
    source, tracker, one = Source(RegistryError("away")), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    assert step.commit() == {}
    assert step.failures == 1
    source.error = None
    assert step.commit() == {KEY: 5}


@pytest.mark.parametrize("error", [CommitFailed("gone"), NotOwned("gone")])
def test_commit_of_lost_partitions_is_not_failure(error):
    source, tracker, one = Source(error), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    assert step.commit() == {}
    assert step.failures == 0
