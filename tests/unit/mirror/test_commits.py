"""The commit step: flush, then commit; nothing before its answer."""

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


def test_only_what_has_arrived_is_committed_and_once():
    source, tracker, one = Source(), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    tracker.take(chunk(one, 5, 9))
    assert step.commit() == {KEY: 5}
    assert step.commit() == {}
    assert source.commits == [{KEY: 5}]


def test_a_release_waits_for_answers_no_longer_than_allowed():
    source, tracker, one = Source(), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0.01)
    tracker.take(chunk(one, 0, 5)).finish()
    tracker.take(chunk(one, 5, 9))
    step.release([KEY])
    assert source.commits == [{KEY: 5}]


def test_a_commit_that_fails_is_made_again():
    source, tracker, one = Source(RegistryError("away")), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    assert step.commit() == {}
    assert step.failures == 1
    source.error = None
    assert step.commit() == {KEY: 5}


@pytest.mark.parametrize("error", [CommitFailed("gone"), NotOwned("gone")])
def test_partitions_that_have_gone_are_no_failure(error):
    source, tracker, one = Source(error), make(), partition()
    step = FlushThenCommit(source, None, tracker, 0)
    tracker.take(chunk(one, 0, 5)).finish()
    assert step.commit() == {}
    assert step.failures == 0
