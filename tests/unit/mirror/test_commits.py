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


def step_after_chunk(source, *, flush_timeout_s=0, open_chunk=False):
    """Return a commit step to which a chunk up to offset 5 has arrived."""
    tracker, source_partition = make(), partition()
    tracker.take(chunk(source_partition, 0, 5)).finish()
    if open_chunk:
        tracker.take(chunk(source_partition, 5, 9))
    return FlushThenCommit(lambda: source, None, tracker, flush_timeout_s)


def test_arrived_positions_are_committed_once():
    source = Source()
    step = step_after_chunk(source, open_chunk=True)
    assert step.commit() == {KEY: 5}
    assert step.commit() == {}
    assert source.commits == [{KEY: 5}]


def test_release_waits_for_responses_within_limit():
    source = Source()
    step = step_after_chunk(source, flush_timeout_s=0.01, open_chunk=True)
    step.release([KEY])
    assert source.commits == [{KEY: 5}]


def test_failed_commit_is_retried():
    source = Source(RegistryError("away"))
    step = step_after_chunk(source)
    assert step.commit() == {}
    assert step.failures == 1
    source.error = None
    assert step.commit() == {KEY: 5}


@pytest.mark.parametrize("error", [CommitFailed("gone"), NotOwned("gone")])
def test_commit_of_lost_partitions_is_not_failure(error):
    source = Source(error)
    step = step_after_chunk(source)
    assert step.commit() == {}
    assert step.failures == 0
