"""Exactly once: what is begun, committed, dropped, and from where a partition goes on."""

import pytest

from tests.unit.mirror.test_tracker import chunk, partition
from zkbroker.consumer import CommitFailed
from zkbroker.errors import ConfigError, ErrorCode, RequestTimedOut, protocol_error
from zkbroker.mirror.transactions import MirrorTransactions, ends_transaction
from zkbroker.producer import MessageTooLarge
from zkbroker.producer.errors import ProducerFenced, TransactionAbortable
from zkbroker.runtime import get_runtime

KEY = ("t", 0)


class Producer:
    def __init__(self, key, story):
        self.key, self.story = key, story
        self.errors = {}

    def _note(self, what):
        self.story.append((what, self.key))
        if what in self.errors:
            raise self.errors[what]

    def init_transactions(self, timeout_s):
        self._note("init")

    def begin(self):
        self._note("begin")

    def send(self, message):
        self.story.append(("position", self.key, message))

    def commit(self, timeout_s):
        self._note("commit")

    def close(self, timeout_s):
        self._note("close")


class World:
    """A step with everything around it; what happens is in `story`."""

    def __init__(self, positions=None, ends=1000):
        self.story = []
        self.producers = {}
        self.kept = dict(positions or {})
        self.held = {}
        self.committed = {}
        self.error = None
        self.step = MirrorTransactions(
            lambda: self,
            make_producer=self._producer,
            positions=self,
            end_of=lambda key: ends,
            runtime=get_runtime("threads"),
            timeout_s=1.0,
        )

    def _producer(self, key):
        self.producers[key] = Producer(key, self.story)
        return self.producers[key]

    # the source
    def positions(self):
        return self.held

    def commit(self, positions):
        if self.error is not None:
            raise self.error
        self.committed.update(positions)

    # the positions
    def read(self, timeout_s):
        self.story.append(("read",))
        return self.kept

    def message(self, key, offset):
        return offset

    def send(self, *chunks):
        """Pass chunks; returns from where each was to be sent, None where it was nobody's."""
        begins = []
        for each in chunks:
            with self.step.open(each) as outlet:
                begins.append(None if outlet is None else outlet.begin)
        return begins


def test_transaction_commits_position_with_messages():
    world, one = World(), partition()
    assert world.send(chunk(one, 3, 5), chunk(one, 5, 9)) == [3, 5]
    assert not world.step.idle
    assert world.step.commit() == {KEY: 9}
    assert world.step.idle
    assert world.committed == {KEY: 9}
    assert world.story == [
        ("init", KEY),
        ("read",),
        ("begin", KEY),
        ("position", KEY, 9),
        ("commit", KEY),
    ]
    assert world.step.commit() == {}


def test_mirrored_messages_are_skipped():
    world, one = World({KEY: 7}), partition()
    assert world.send(chunk(one, 3, 5), chunk(one, 5, 9), chunk(one, 9, 12)) == [7, 7, 9]
    assert [each for each in world.story if each[0] == "begin"] == [("begin", KEY)]
    world.step.commit()
    assert world.committed == {KEY: 12}


def test_all_assigned_ids_are_initialized_before_positions_are_read():
    world, one = World(), partition()
    world.held = {KEY: 0, ("t", 1): 0}
    world.send(chunk(one, 0, 5))
    assert sorted(world.story[:2]) == [("init", KEY), ("init", ("t", 1))]
    assert world.story[2] == ("read",)


def test_revoked_partition_is_committed_and_resumed_later():
    world, one, again = World(), partition(), partition()
    world.send(chunk(one, 0, 5))
    world.step.release([KEY])
    assert world.committed == {KEY: 5}
    assert world.story[-1] == ("close", KEY)
    world.kept = {KEY: 5}
    assert world.send(chunk(again, 4, 8)) == [5]
    assert [each[0] for each in world.story].count("init") == 2


def test_failed_commit_at_release_is_not_committed_in_source():
    world, one = World(), partition()
    world.send(chunk(one, 0, 5))
    world.producers[KEY].errors["commit"] = ProducerFenced("another one")
    world.step.release([KEY])
    assert world.committed == {}
    assert world.step.failures == 1


def test_lost_partition_is_not_committed():
    world, one = World(), partition()
    world.send(chunk(one, 0, 5))
    world.step.drop([KEY])
    assert world.step.idle
    assert world.step.commit() == {}
    assert world.story[-1] == ("close", KEY)


@pytest.mark.parametrize("error", [ProducerFenced("another one"), RequestTimedOut("no answer")])
def test_failed_or_unanswered_commit_raises_transaction_error(error):
    world, one = World(), partition()
    world.send(chunk(one, 0, 5))
    world.producers[KEY].errors["commit"] = error
    with pytest.raises((ProducerFenced, TransactionAbortable)):
        world.step.commit()
    assert world.committed == {}


def test_commit_refused_by_source_keeps_transaction():
    world, one = World(), partition()
    world.send(chunk(one, 0, 5))
    world.error = CommitFailed("gone")
    assert world.step.commit() == {KEY: 5}
    assert world.step.idle


def test_new_reading_commits_messages_of_old_reading():
    world, one, again = World(), partition(), partition()
    world.send(chunk(one, 0, 5))
    world.kept = {KEY: 5}
    assert world.send(chunk(again, 5, 6)) == [5]
    assert ("position", KEY, 5) in world.story


def test_recreated_source_topic_is_reported():
    world, one = World({KEY: 2000}), partition()
    with pytest.raises(ConfigError, match=r"created again.*exactly.once.id"):
        world.send(chunk(one, 0, 5))


def test_failed_initialization_keeps_no_producer():
    world, one = World(), partition()

    def refusing(key):
        made = Producer(key, world.story)
        made.errors["init"] = protocol_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "later")
        return made

    world.step._make_producer = refusing
    with pytest.raises(Exception, match="later"):
        world.send(chunk(one, 0, 5))
    world.step._make_producer = world._producer
    assert world.send(chunk(one, 0, 5)) == [0]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ProducerFenced("x"), True),
        (protocol_error(ErrorCode.INVALID_PRODUCER_EPOCH, "x"), True),
        (protocol_error(ErrorCode.NOT_LEADER_FOR_PARTITION, "x"), True),
        (protocol_error(ErrorCode.MESSAGE_TOO_LARGE, "x"), False),
        (MessageTooLarge("x"), False),
    ],
)
def test_transaction_errors_are_repeated_and_refusals_are_not(error, again):
    assert ends_transaction(error) is again
