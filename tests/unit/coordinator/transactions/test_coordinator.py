"""The coordinator of led partitions: loads, writes, markers and release."""

import logging
from collections import defaultdict

import gevent
import gevent.event
import pytest

from tests.support.memory_log import MemoryLog, ParkingLog
from tests.support.replicas import Park
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.coordinator.transactions import TransactionCoordinator, TransactionSettings
from zkbroker.coordinator.transactions.markers import MarkerSender
from zkbroker.coordinator.transactions.transaction import PARTITION_BYTES, size_of
from zkbroker.errors import (
    ErrorCode,
    MessageSizeTooLarge,
    NetworkError,
    NotEnoughReplicas,
    NotLeaderForPartition,
    RequestTimedOut,
    StorageError,
)
from zkbroker.protocol.transaction_topic import TransactionState as S
from zkbroker.protocol.transaction_topic import (
    TransactionValue,
    encode_transaction,
    encode_transaction_key,
)
from zkbroker.records import encode_message_set, iter_entries
from zkbroker.runtime.greenlets import GreenletsRuntime

E = ErrorCode
COUNT = 4
ID, NUMBER = "my-txn", key_partition("my-txn", COUNT)
A, B = ("t", 0), ("u", 1)


class Leadership:
    """The leadership of a partition of the topic."""

    def __init__(self, leader_epoch=3):
        self.leader_epoch = leader_epoch


class Cluster:
    """Leaders of partitions, and the markers sent to each broker."""

    def __init__(self):
        self.leaders = defaultdict(lambda: 7)
        self.markers_sent = []
        self.codes = {}
        self.down = set()
        self.before_answer = lambda: None

    def send(self, broker, markers):
        if broker in self.down:
            raise NetworkError("down")
        self.markers_sent += [(broker, each) for each in markers]
        self.before_answer()
        return [
            {key: self.codes.get((broker, key), E.NONE) for key in each.partitions}
            for each in markers
        ]


def until(condition):
    """Let other greenlets run until a condition is true."""
    with gevent.Timeout(30):
        while not condition():
            gevent.sleep(0.001)


class ClockedRuntime(GreenletsRuntime):
    """Greenlets, and a time of day that the test sets."""

    def __init__(self, now_ms):
        self._now_ms = now_ms

    def now_ms(self):
        return self._now_ms()


class CoordinatorSetup:
    def __init__(self, **settings):
        self.now = 1_000_000
        self.cluster = Cluster()
        self.next_pid = 500
        self.led_here = set()
        runtime = ClockedRuntime(lambda: self.now)
        self.coordinator = TransactionCoordinator(
            TransactionSettings(wait_s=0.1, **settings),
            runtime=runtime,
            partition_count=lambda: COUNT,
            led_here=lambda number: number in self.led_here,
            new_producer_id=self.new_producer_id,
            markers=MarkerSender(
                lambda topic, number: self.cluster.leaders[topic, number],
                self.cluster.send,
                runtime=runtime,
                backoff_ms=1,
            ),
        )
        self.log = MemoryLog()
        self.leadership = Leadership()

    def new_producer_id(self):
        gevent.sleep(0)
        self.next_pid += 1
        return self.next_pid - 1

    def lead(self, log=None):
        if log is not None:
            self.log = log
        self.coordinator.host(NUMBER, self.leadership, self.log)
        until(lambda: self.partition().loaded)
        return self

    def settle(self):
        """Give whatever must not happen some time to happen."""
        for _ in range(30):
            gevent.sleep(0)
        gevent.sleep(0.005)

    def partition(self):
        return self.coordinator._hosted.get(NUMBER)

    def state(self):
        transaction = self.partition().transactions.get(ID)
        return None if transaction is None else transaction.current.state

    def begin(self, *partitions):
        found = self.coordinator.init_producer_id(ID, 60_000)
        assert found.error is E.NONE
        self.producer = (found.producer_id, found.producer_epoch)
        assert self.add(*partitions or (A,)) is E.NONE
        return self

    def add(self, *partitions, **options):
        return self.coordinator.add_partitions(ID, *self.producer, partitions, **options)

    def end(self, commit=True):
        return self.coordinator.end(ID, *self.producer, commit=commit)


@pytest.fixture
def make():
    """Make a `CoordinatorSetup`; it is closed after the test."""
    made = []

    def new(**settings):
        made.append(CoordinatorSetup(**settings))
        return made[-1]

    yield new
    for each in made:
        each.coordinator.close()


@pytest.fixture
def setup(make):
    return make().lead()


def test_committed_transaction_gets_markers_on_every_leader(setup):
    setup.begin(A, B)
    setup.cluster.leaders[B] = 9
    assert setup.coordinator.verify(ID, *setup.producer, [A]) is E.NONE
    assert setup.end() is E.NONE
    assert setup.state() is S.PREPARE_COMMIT
    assert setup.coordinator.verify(ID, *setup.producer, [A]) is E.INVALID_TXN_STATE
    until(lambda: setup.state() is S.COMPLETE_COMMIT)
    sent = {(broker, each.partitions): each for broker, each in setup.cluster.markers_sent}
    assert set(sent) == {(7, (A,)), (9, (B,))}
    for each in sent.values():
        assert (each.producer_id, each.producer_epoch, each.commit) == (*setup.producer, True)
        assert each.coordinator_epoch == 3
    assert setup.end() is E.NONE
    assert setup.end(commit=False) is E.INVALID_TXN_STATE


def test_records_match_genuine_brokers(setup):
    setup.begin()
    entries = list(iter_entries(setup.log.read_bytes(0, 1 << 20)))
    assert [(e.magic, e.record_count, e.codec, e.producer_id) for e in entries] == [
        (2, 1, 0, -1),
        (2, 1, 0, -1),
    ]


def test_invalid_requests_are_refused_before_lookup(make):
    coordinator = make().coordinator
    assert coordinator.init_producer_id("", 1).error is E.INVALID_REQUEST
    assert coordinator.init_producer_id(ID, 0).error is E.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init_producer_id(ID, 900_001).error is E.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init_producer_id(ID, 900_000).error is E.NOT_COORDINATOR
    assert coordinator.add_partitions("", 1, 1, [A]) is E.INVALID_REQUEST
    assert coordinator.end("", 1, 1, commit=True) is E.INVALID_REQUEST


def test_request_to_other_or_loading_coordinator_is_refused(make):
    setup = make()
    ask = setup.coordinator.end
    assert ask(ID, 1, 1, commit=True) is E.NOT_COORDINATOR
    setup.led_here.add(NUMBER)
    assert ask(ID, 1, 1, commit=True) is E.COORDINATOR_LOAD_IN_PROGRESS
    setup.coordinator.host(NUMBER, setup.leadership, setup.log)
    assert ask(ID, 1, 1, commit=True) is E.COORDINATOR_LOAD_IN_PROGRESS
    until(lambda: ask(ID, 1, 1, commit=True) is E.INVALID_PRODUCER_ID_MAPPING)
    setup.coordinator.release(NUMBER)
    assert ask(ID, 1, 1, commit=True) is E.NOT_COORDINATOR


def test_next_leader_continues_ongoing_transaction(make, setup):
    setup.begin(A)
    successor = make()
    successor.leadership.leader_epoch = 4
    successor.lead(setup.log).producer = setup.producer
    assert successor.state() is S.ONGOING
    assert successor.add(B) is E.NONE
    assert successor.end() is E.NONE
    until(lambda: successor.state() is S.COMPLETE_COMMIT)
    assert {each.coordinator_epoch for _, each in successor.cluster.markers_sent} == {4}


def test_next_leader_ends_prepared_transaction(make, setup):
    setup.cluster.down.add(7)
    setup.begin(A)
    assert setup.end(commit=False) is E.NONE
    setup.settle()
    assert setup.state() is S.PREPARE_ABORT
    successor = make().lead(setup.log)
    until(lambda: successor.state() is S.COMPLETE_ABORT)
    assert [each.commit for _, each in successor.cluster.markers_sent] == [False]


def test_markers_are_retried_at_current_leader(setup):
    setup.cluster.leaders[A] = -1
    setup.cluster.down.add(7)
    setup.begin(A, B)
    setup.end()
    setup.settle()
    assert setup.state() is S.PREPARE_COMMIT
    assert setup.coordinator.init_producer_id(ID, 1).error is E.CONCURRENT_TRANSACTIONS
    setup.cluster.leaders[A] = 8
    setup.cluster.codes[8, A] = E.NOT_LEADER_FOR_PARTITION
    until(lambda: setup.cluster.markers_sent)
    assert [(broker, each.partitions) for broker, each in setup.cluster.markers_sent][:1] == [
        (8, (A,))
    ]
    for code in (E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR):
        setup.cluster.codes[8, A] = code
        setup.settle()
        assert setup.state() is S.PREPARE_COMMIT
    setup.cluster.codes.clear()
    setup.cluster.down.clear()
    until(lambda: setup.state() is S.COMPLETE_COMMIT)


def test_deleted_topic_and_old_format_need_no_marker(setup):
    setup.cluster.leaders[A] = None
    setup.cluster.codes[7, B] = E.UNSUPPORTED_FOR_MESSAGE_FORMAT
    setup.begin(A, B)
    setup.end()
    until(lambda: setup.state() is S.COMPLETE_COMMIT)


@pytest.mark.parametrize("code", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_coordinator_stops_sending_markers(setup, code):
    setup.cluster.codes[7, A] = code
    setup.begin(A)
    setup.end()
    until(lambda: setup.cluster.markers_sent)
    setup.settle()
    assert (setup.state(), len(setup.cluster.markers_sent)) == (S.PREPARE_COMMIT, 1)


def test_released_coordinator_sends_no_marker(setup):
    setup.cluster.down.add(7)
    setup.begin(A)
    setup.end()
    setup.settle()
    setup.coordinator.release(NUMBER)
    setup.settle()
    setup.cluster.down.clear()
    setup.settle()
    assert setup.cluster.markers_sent == []


def test_failed_write_changes_no_state(setup):
    setup.begin(A)
    setup.log.fail_with = RequestTimedOut("slow")
    assert setup.end() is E.COORDINATOR_NOT_AVAILABLE
    setup.settle()
    assert (setup.state(), setup.cluster.markers_sent) == (S.ONGOING, [])
    assert setup.coordinator.init_producer_id("other-3", 1).error is not E.NONE
    setup.log.fail_with = None
    assert setup.end() is E.NONE


def test_failed_first_write_keeps_no_transaction(setup):
    setup.log.fail_with = NotEnoughReplicas("few")
    assert setup.coordinator.init_producer_id(ID, 1).error is E.COORDINATOR_NOT_AVAILABLE
    assert setup.state() is None
    assert setup.partition().transactions == {}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (RequestTimedOut(""), E.COORDINATOR_NOT_AVAILABLE),
        (NotEnoughReplicas(""), E.COORDINATOR_NOT_AVAILABLE),
        (NotLeaderForPartition(""), E.NOT_COORDINATOR),
        (StorageError(""), E.NOT_COORDINATOR),
        (MessageSizeTooLarge(""), E.UNKNOWN_SERVER_ERROR),
    ],
    ids=repr,
)
def test_write_failures_map_to_retriable_codes(setup, failure, code):
    # TransactionStateManager.appendTransactionToLog of genuine brokers.
    setup.begin(A)
    setup.log.fail_with = failure
    assert setup.end() is code


def test_loaded_state_is_served_after_replication(make, setup):
    setup.begin(A)
    successor = make()
    setup.log.fail_with = StorageError("not yet")
    successor.coordinator.host(NUMBER, successor.leadership, setup.log)
    successor.settle()
    assert successor.coordinator.verify(ID, *setup.producer, [A]) is E.COORDINATOR_LOAD_IN_PROGRESS
    setup.log.fail_with = None
    until(lambda: successor.coordinator.verify(ID, *setup.producer, [A]) is E.NONE)


def test_writes_that_are_repeated_while_replicas_are_missing_log_one_line_each(make, setup, caplog):
    class WithoutReplicas(MemoryLog):
        waits = 0

        def wait_durable(self, last_offset, timeout_s=None, park=None):
            self.waits += 1
            raise NotEnoughReplicas("one in sync")

    setup.begin(A)
    log = WithoutReplicas()
    log.segments, log.log_end_offset = setup.log.segments, setup.log.log_end_offset
    successor = make()
    with caplog.at_level(logging.INFO):
        successor.coordinator.host(NUMBER, successor.leadership, log)
        until(lambda: log.waits > 2)
        setup.log.fail_with = NotEnoughReplicas("one in sync")
        for _ in range(3):
            assert setup.end() is E.COORDINATOR_NOT_AVAILABLE
    lines = [each.getMessage() for each in caplog.records]
    assert sum("loading waits" in each for each in lines) == 1
    assert sum("transition not written" in each for each in lines) == 1


def test_new_epoch_of_same_leadership_does_not_reload(setup):
    setup.begin(A)
    before = setup.partition()
    setup.leadership.leader_epoch = 8
    setup.lead()
    assert setup.partition() is before
    setup.end()
    until(lambda: setup.cluster.markers_sent)
    assert [each.coordinator_epoch for _, each in setup.cluster.markers_sent] == [8]


def test_timed_out_transaction_is_aborted(setup):
    setup.begin(A)
    setup.now += 60_000
    assert setup.coordinator.abort_timed_out() == 0
    setup.now += 1
    assert setup.coordinator.abort_timed_out() == 1
    until(lambda: setup.state() is S.COMPLETE_ABORT)
    ((_, marker),) = setup.cluster.markers_sent
    assert (marker.producer_epoch, marker.commit) == (setup.producer[1] + 1, False)
    assert setup.end() is E.INVALID_PRODUCER_EPOCH


def test_unused_id_expires_with_tombstone(make):
    setup = make(expiration_ms=1000)
    setup.lead().begin(A)
    setup.end()
    until(lambda: setup.state() is S.COMPLETE_COMMIT)
    setup.now += 999
    assert setup.coordinator.expire() == 0
    setup.now += 1
    assert setup.coordinator.expire() == 1
    assert setup.add(A) is E.INVALID_PRODUCER_ID_MAPPING
    assert make().lead(setup.log).state() is None
    found = setup.coordinator.init_producer_id(ID, 1)
    assert (found.producer_id, found.producer_epoch) == (setup.producer[0] + 1, 0)


def test_concurrent_inits_get_distinct_epochs(setup):
    found = []
    tasks = [
        gevent.spawn(lambda: found.append(setup.coordinator.init_producer_id(ID, 1)))
        for _ in range(3)
    ]
    gevent.joinall(tasks, timeout=5)
    granted = [(each.producer_id, each.producer_epoch) for each in found if each.error is E.NONE]
    assert len(granted) == len(set(granted)) >= 1


def test_waiting_requests_are_parked(setup):
    setup.leadership = Leadership()
    setup.lead(ParkingLog())
    park = Park()
    found = setup.coordinator.init_producer_id(ID, 60_000, park)
    assert park.times == 2  # for a producer id, and for the record
    producer = (found.producer_id, found.producer_epoch)
    assert setup.coordinator.add_partitions(ID, *producer, [A], park) is E.NONE
    assert setup.coordinator.end(ID, *producer, commit=True, park=park) is E.NONE
    assert park.times == 4


def counts(setup):
    return setup.coordinator.figures().counts


def test_coordinator_counts_transitions(setup):
    setup.begin(A)
    setup.now += 700
    figures = setup.coordinator.figures()
    assert {state: count for state, count in figures.states.items() if count} == {S.ONGOING: 1}
    assert (figures.oldest_open_ms, figures.counts.begun) == (700, 1)
    setup.end()
    # Decided, but no partition has its marker yet; `figures` would run the task that sends it.
    assert setup.coordinator._transitions.counts.commits == 0
    until(lambda: setup.state() is S.COMPLETE_COMMIT)
    assert counts(setup).commits == 1
    assert setup.coordinator.figures().oldest_open_ms == 0
    setup.add(A)
    setup.add(B)
    setup.end(commit=False)
    until(lambda: setup.state() is S.COMPLETE_ABORT)
    assert (counts(setup).begun, counts(setup).aborts) == (2, 1)
    setup.add(A)
    assert setup.coordinator.init_producer_id(ID, 60_000).error is E.CONCURRENT_TRANSACTIONS
    until(lambda: setup.state() is S.COMPLETE_ABORT)
    assert (counts(setup).fenced, counts(setup).aborts, counts(setup).timeouts) == (1, 2, 0)
    setup.begin(A)
    setup.now += 60_001
    assert setup.coordinator.abort_timed_out() == 1
    until(lambda: setup.state() is S.COMPLETE_ABORT)
    assert (counts(setup).fenced, counts(setup).aborts, counts(setup).timeouts) == (1, 3, 1)
    setup.now += 604_800_001
    assert setup.coordinator.expire() == 1
    assert counts(setup).expired == 1
    assert not any(setup.coordinator.figures().states.values())


def test_waiting_and_retried_markers_are_counted(setup):
    setup.begin(A, B)
    setup.cluster.leaders[B] = -1
    setup.cluster.down.add(7)
    setup.end()
    until(lambda: setup.coordinator.figures().marker_retries > 0)
    until(lambda: setup.coordinator.figures().markers_unknown_destination == 1)
    setup.cluster.leaders[B] = 9
    setup.cluster.down.clear()
    until(lambda: setup.state() is S.COMPLETE_COMMIT)
    figures = setup.coordinator.figures()
    assert (figures.markers_unknown_destination, figures.markers_queued) == (0, 0)


def end_without_response(setup):
    """End a transaction whose marker gets its response at the returned event."""
    setup.begin(A)
    answered = gevent.event.Event()
    setup.cluster.before_answer = answered.wait
    setup.end()
    until(lambda: setup.coordinator.figures().markers_queued == 1)
    return answered


@pytest.mark.parametrize(
    "failure", [NotEnoughReplicas("too few"), StorageError("Too many open files")]
)
def test_failed_completion_write_is_counted_and_retried(setup, failure):
    answered = end_without_response(setup)
    setup.log.fail_with = failure
    answered.set()
    until(lambda: setup.coordinator.figures().appends_retried == 1)
    assert counts(setup).failed_writes > 0
    setup.log.fail_with = None
    until(lambda: setup.state() is S.COMPLETE_COMMIT)


def test_leadership_lost_during_load_logs_no_error(setup, caplog):
    caplog.set_level(logging.INFO)

    class Moved(MemoryLog):
        def read_bytes(self, offset, max_bytes):
            raise NotLeaderForPartition("elsewhere")

    setup.begin(A)
    moved = Moved()
    moved.segments, moved.log_end_offset = setup.log.segments, setup.log.log_end_offset
    before = setup.log
    setup.leadership = Leadership()
    setup.coordinator.host(NUMBER, setup.leadership, moved)
    until(lambda: "loading ends" in caplog.text)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert setup.add(B) is E.COORDINATOR_LOAD_IN_PROGRESS
    setup.leadership = Leadership()
    setup.lead(before)
    assert setup.state() is S.ONGOING


@pytest.mark.parametrize(
    "changed",
    [
        {"state": S.DEAD},
        {"state": S.PREPARE_EPOCH_FENCE},
        {"producer_id": -1},
        {"producer_epoch": -1},
    ],
)
def test_invalid_stored_record_is_skipped(make, changed):
    log, setup = MemoryLog(), make()
    value = {"producer_id": 9, "producer_epoch": 0, "timeout_ms": 1, "state": S.EMPTY, **changed}
    stored = encode_transaction(TransactionValue(**value))
    data = encode_message_set([(encode_transaction_key(ID), stored, 0, ())])
    log.append(bytearray(data))
    setup.lead(log)
    found = setup.coordinator.init_producer_id(ID, 60_000)
    assert (found.error, found.producer_id, found.producer_epoch) == (E.NONE, 500, 0)


def test_failed_timeout_check_is_repeated(make, monkeypatch):
    setup = make(abort_check_ms=1)
    checks = []

    def check():
        checks.append(1)
        if len(checks) == 1:
            raise ValueError("once")

    monkeypatch.setattr(setup.coordinator, "abort_timed_out", check)
    setup.coordinator.start()
    until(lambda: len(checks) > 1)


def test_id_is_not_kept_after_unexpected_write_error(setup, monkeypatch):
    def write(*_):
        raise ValueError("no record")

    monkeypatch.setattr(setup.partition().store, "write", write)
    with pytest.raises(ValueError, match="no record"):
        setup.coordinator.init_producer_id(ID, 60_000)
    assert setup.partition().transactions == {}


def used(setup):
    return setup.partition().size_bytes


def test_ids_and_partitions_are_bounded_by_memory_limit(make, caplog):
    setup = make(metadata_bytes=size_of(ID) + 2 * PARTITION_BYTES, expiration_ms=1000).lead()
    setup.begin(A, B)
    assert used(setup) == setup.coordinator._settings.metadata_bytes
    assert setup.add(A, B) is E.NONE
    assert setup.add(("t", 1)) is E.POLICY_VIOLATION
    other = next(f"other-{n}" for n in range(99) if key_partition(f"other-{n}", COUNT) == NUMBER)
    assert setup.coordinator.init_producer_id(other, 60_000).error is E.POLICY_VIOLATION
    assert other not in setup.partition().transactions
    assert "transaction.metadata.max.bytes" in caplog.text
    assert setup.end() is E.NONE
    until(lambda: setup.state() is S.COMPLETE_COMMIT)
    assert used(setup) == size_of(ID)
    setup.now += 5000
    assert setup.coordinator.expire() == 1
    assert used(setup) == 0
    assert setup.coordinator.init_producer_id(other, 60_000).error is E.NONE


def test_loaded_ids_count_against_memory(make):
    first = make().lead().begin(A)
    second = make().lead(first.log)
    assert used(second) == used(first) == size_of(ID) + PARTITION_BYTES


def test_next_transaction_waits_for_previous_end(setup):
    setup.begin(A)
    assert setup.end() is E.NONE
    park = Park()
    assert setup.state() is S.PREPARE_COMMIT
    assert setup.add(B, park=park) is E.NONE
    assert setup.state() is S.ONGOING
    assert counts(setup).commits == 1
    assert park.times == 1


def test_wait_for_previous_end_is_bounded(setup):
    setup.cluster.down.add(7)
    setup.begin(A)
    setup.end()
    with gevent.Timeout(20):
        assert setup.add(B) is E.CONCURRENT_TRANSACTIONS
    assert setup.state() is S.PREPARE_COMMIT


def test_waiting_request_is_refused_after_release(setup):
    setup.cluster.down.add(7)
    setup.begin(A)
    setup.end()
    waiting = gevent.spawn(setup.add, B)
    gevent.sleep(0.01)
    setup.coordinator.release(NUMBER)
    assert waiting.get(timeout=20) is E.NOT_COORDINATOR
