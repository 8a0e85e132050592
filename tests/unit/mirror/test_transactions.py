"""Exactly once: begun, committed and dropped transactions, and resumed positions."""

import pytest

from tests.unit.mirror.test_tracker import chunk, partition
from zkbroker.consumer import CommitFailed
from zkbroker.errors import ClientError, ConfigError, ErrorCode, RequestTimedOut, protocol_error
from zkbroker.mirror.transactions import MirrorTransactions, ends_transaction
from zkbroker.producer import MessageTooLarge
from zkbroker.producer.errors import ProducerFenced, TransactionAbortable
from zkbroker.runtime import get_runtime

KEY = ("t", 0)


class Producer:
    def __init__(self, key, calls):
        self.key, self.calls = key, calls
        self.errors = {}

    def _note(self, what):
        self.calls.append((what, self.key))
        if what in self.errors:
            raise self.errors[what]

    def init_transactions(self, timeout_s):
        self._note("init")
        self.after_init()

    def after_init(self):
        pass

    def begin(self):
        self._note("begin")

    def send(self, message):
        self.calls.append(("position", self.key, message))

    def commit(self, timeout_s):
        self._note("commit")

    def close(self, timeout_s):
        self._note("close")


class TransactionSetup:
    """A commit step whose collaborators are fakes that record their `calls`."""

    def __init__(self, positions=None, ends=1000):
        self.calls = []
        self.producers = {}
        self.stored = dict(positions or {})
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
        self.producers[key] = Producer(key, self.calls)
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
        self.calls.append(("read",))
        return self.stored

    def message(self, key, offset):
        return offset

    def send(self, *chunks):
        """Open chunks; return the first offset to send of each, None for a lost partition."""
        begins = []
        for each in chunks:
            with self.step.open(each) as outlet:
                begins.append(None if outlet is None else outlet.begin)
        return begins


def test_transaction_commits_position_with_messages():
    setup, source = TransactionSetup(), partition()
    assert setup.send(chunk(source, 3, 5), chunk(source, 5, 9)) == [3, 5]
    assert not setup.step.idle
    assert setup.step.commit() == {KEY: 9}
    assert setup.step.idle
    assert setup.committed == {KEY: 9}
    assert setup.calls == [
        ("init", KEY),
        ("read",),
        ("begin", KEY),
        ("position", KEY, 9),
        ("commit", KEY),
    ]
    assert setup.step.commit() == {}


def test_commit_does_not_pass_a_chunk_that_could_not_be_sent():
    setup, source = TransactionSetup({KEY: 3}), partition()
    for begin in (3, 5):
        failing = chunk(source, begin, begin + 2)
        with pytest.raises(ClientError), setup.step.open(failing):
            raise ClientError("a topic is not ready")
        assert setup.step.commit() == {KEY: begin}
        assert setup.send(failing) == [begin]
    assert setup.step.commit() == {KEY: 7}


def test_mirrored_messages_are_skipped():
    setup, source = TransactionSetup({KEY: 7}), partition()
    assert setup.send(chunk(source, 3, 5), chunk(source, 5, 9), chunk(source, 9, 12)) == [7, 7, 9]
    assert [each for each in setup.calls if each[0] == "begin"] == [("begin", KEY)]
    setup.step.commit()
    assert setup.committed == {KEY: 12}


def test_all_assigned_ids_are_initialized_before_positions_are_read():
    setup, source = TransactionSetup(), partition()
    setup.held = {KEY: 0, ("t", 1): 0}
    setup.send(chunk(source, 0, 5))
    assert sorted(setup.calls[:2]) == [("init", KEY), ("init", ("t", 1))]
    assert setup.calls[2] == ("read",)


def test_revoked_partition_is_committed_and_resumed_later():
    setup, source, again = TransactionSetup(), partition(), partition()
    setup.send(chunk(source, 0, 5))
    setup.step.release([KEY])
    assert setup.committed == {KEY: 5}
    assert setup.calls[-1] == ("close", KEY)
    setup.stored = {KEY: 5}
    assert setup.send(chunk(again, 4, 8)) == [5]
    assert [each[0] for each in setup.calls].count("init") == 2


def test_failed_commit_at_release_is_not_committed_in_source():
    setup, source = TransactionSetup(), partition()
    setup.send(chunk(source, 0, 5))
    setup.producers[KEY].errors["commit"] = ProducerFenced("another one")
    setup.step.release([KEY])
    assert setup.committed == {}
    assert setup.step.failures == 1


def test_lost_partition_is_not_committed():
    setup, source = TransactionSetup(), partition()
    setup.send(chunk(source, 0, 5))
    setup.step.drop([KEY])
    assert setup.step.idle
    assert setup.step.commit() == {}
    assert setup.calls[-1] == ("close", KEY)


@pytest.mark.parametrize("error", [ProducerFenced("another one"), RequestTimedOut("no answer")])
def test_failed_or_unanswered_commit_raises_transaction_error(error):
    setup, source = TransactionSetup(), partition()
    setup.send(chunk(source, 0, 5))
    setup.producers[KEY].errors["commit"] = error
    with pytest.raises((ProducerFenced, TransactionAbortable)):
        setup.step.commit()
    assert setup.committed == {}


def test_commit_refused_by_source_keeps_transaction():
    setup, source = TransactionSetup(), partition()
    setup.send(chunk(source, 0, 5))
    setup.error = CommitFailed("gone")
    assert setup.step.commit() == {KEY: 5}
    assert setup.step.idle


def test_new_reading_commits_messages_of_old_reading():
    setup, source, again = TransactionSetup(), partition(), partition()
    setup.send(chunk(source, 0, 5))
    setup.stored = {KEY: 5}
    assert setup.send(chunk(again, 5, 6)) == [5]
    assert ("position", KEY, 5) in setup.calls


def test_recreated_source_topic_is_reported():
    setup, source = TransactionSetup({KEY: 2000}), partition()
    with pytest.raises(ConfigError, match=r"created again.*exactly.once.id"):
        setup.send(chunk(source, 0, 5))


def test_failed_initialization_keeps_no_producer():
    setup, source = TransactionSetup(), partition()

    def refusing(key):
        made = Producer(key, setup.calls)
        made.errors["init"] = protocol_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "later")
        return made

    setup.step._make_producer = refusing
    with pytest.raises(Exception, match="later"):
        setup.send(chunk(source, 0, 5))
    setup.step._make_producer = setup._producer
    assert setup.send(chunk(source, 0, 5)) == [0]


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


def test_partition_given_away_while_ids_are_initialized_is_lost():
    setup, source = TransactionSetup(), partition()
    setup.held = {("before", 0): 0, KEY: 0, ("u", 0): 0}
    make_producer = setup._producer

    def made(key):
        producer = make_producer(key)
        producer.after_init = lambda: setup.step.release([KEY])
        return producer

    setup.step._make_producer = made
    assert setup.send(chunk(source, 0, 5)) == [None]
    assert setup.step.idle
