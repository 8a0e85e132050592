"""The coordinator over partitions that are led here: loading, writing, markers, leaving."""

import logging
from collections import defaultdict

import gevent
import gevent.event
import pytest

from tests.support.memory_log import MemoryLog
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


class Led:
    """A partition of the topic, as its replica tells of it."""

    def __init__(self, leader_epoch=3):
        self.leader_epoch = leader_epoch


class Cluster:
    """Who leads what, and what markers each broker got."""

    def __init__(self):
        self.leaders = defaultdict(lambda: 7)
        self.got = []
        self.codes = {}
        self.down = set()
        self.before_answer = lambda: None

    def send(self, broker, markers):
        if broker in self.down:
            raise NetworkError("down")
        self.got += [(broker, each) for each in markers]
        self.before_answer()
        return [
            {key: self.codes.get((broker, key), E.NONE) for key in each.partitions}
            for each in markers
        ]


def until(condition):
    """Let the other greenlets run until something is true."""
    with gevent.Timeout(30):
        while not condition():
            gevent.sleep(0.001)


class Clocked(GreenletsRuntime):
    """Greenlets, and a time of day that the test sets."""

    def __init__(self, now_ms):
        self._now_ms = now_ms

    def now_ms(self):
        return self._now_ms()


class Desk:
    def __init__(self, **settings):
        self.now = 1_000_000
        self.cluster = Cluster()
        self.next_pid = 500
        self.led_here = set()
        runtime = Clocked(lambda: self.now)
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
        self.led = Led()

    def new_producer_id(self):
        gevent.sleep(0)
        self.next_pid += 1
        return self.next_pid - 1

    def lead(self, log=None):
        if log is not None:
            self.log = log
        self.coordinator.host(NUMBER, self.led, self.log)
        return self.settle()

    def settle(self):
        for _ in range(30):
            gevent.sleep(0)
        gevent.sleep(0.005)
        return self

    def partition(self):
        return self.coordinator._hosted.get(NUMBER)

    def state(self):
        transaction = self.partition().transactions.get(ID)
        return None if transaction is None else transaction.current.state

    def begin(self, *partitions):
        found = self.coordinator.init_producer_id(ID, 60_000)
        assert found.error is E.NONE
        self.who = (found.producer_id, found.producer_epoch)
        assert self.add(*partitions or (A,)) is E.NONE
        return self

    def add(self, *partitions, **options):
        return self.coordinator.add_partitions(ID, *self.who, partitions, **options)

    def end(self, commit=True):
        return self.coordinator.end(ID, *self.who, commit=commit)


@pytest.fixture
def desk():
    made = Desk()
    yield made.lead()
    made.coordinator.close()


def test_committed_transaction_gets_markers_on_every_leader(desk):
    desk.begin(A, B)
    desk.cluster.leaders[B] = 9
    assert desk.coordinator.verify(ID, *desk.who, [A]) is E.NONE
    assert desk.end() is E.NONE
    assert desk.state() is S.PREPARE_COMMIT
    assert desk.coordinator.verify(ID, *desk.who, [A]) is E.INVALID_TXN_STATE
    until(lambda: desk.state() is S.COMPLETE_COMMIT)
    told = {(broker, each.partitions): each for broker, each in desk.cluster.got}
    assert set(told) == {(7, (A,)), (9, (B,))}
    for each in told.values():
        assert (each.producer_id, each.producer_epoch, each.commit) == (*desk.who, True)
        assert each.coordinator_epoch == 3
    assert desk.end() is E.NONE
    assert desk.end(commit=False) is E.INVALID_TXN_STATE


def test_records_match_genuine_brokers(desk):
    desk.begin()
    entries = list(iter_entries(desk.log.read_bytes(0, 1 << 20)))
    assert [(e.magic, e.record_count, e.codec, e.producer_id) for e in entries] == [
        (2, 1, 0, -1),
        (2, 1, 0, -1),
    ]


def test_invalid_requests_are_refused_before_lookup():
    coordinator = Desk().coordinator
    assert coordinator.init_producer_id("", 1).error is E.INVALID_REQUEST
    assert coordinator.init_producer_id(ID, 0).error is E.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init_producer_id(ID, 900_001).error is E.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init_producer_id(ID, 900_000).error is E.NOT_COORDINATOR
    assert coordinator.add_partitions("", 1, 1, [A]) is E.INVALID_REQUEST
    assert coordinator.end("", 1, 1, commit=True) is E.INVALID_REQUEST


def test_request_to_other_or_loading_coordinator_is_refused():
    desk = Desk()
    ask = desk.coordinator.end
    assert ask(ID, 1, 1, commit=True) is E.NOT_COORDINATOR
    desk.led_here.add(NUMBER)
    assert ask(ID, 1, 1, commit=True) is E.COORDINATOR_LOAD_IN_PROGRESS
    desk.coordinator.host(NUMBER, desk.led, desk.log)
    assert ask(ID, 1, 1, commit=True) is E.COORDINATOR_LOAD_IN_PROGRESS
    desk.settle()
    assert ask(ID, 1, 1, commit=True) is E.INVALID_PRODUCER_ID_MAPPING
    desk.coordinator.release(NUMBER)
    assert ask(ID, 1, 1, commit=True) is E.NOT_COORDINATOR
    desk.coordinator.close()


def test_next_leader_continues_ongoing_transaction(desk):
    desk.begin(A)
    successor = Desk()
    successor.led.leader_epoch = 4
    successor.lead(desk.log).who = desk.who
    assert successor.state() is S.ONGOING
    assert successor.add(B) is E.NONE
    assert successor.end() is E.NONE
    successor.settle()
    assert successor.state() is S.COMPLETE_COMMIT
    assert {each.coordinator_epoch for _, each in successor.cluster.got} == {4}
    successor.coordinator.close()


def test_next_leader_ends_prepared_transaction(desk):
    desk.cluster.down.add(7)
    desk.begin(A)
    assert desk.end(commit=False) is E.NONE
    desk.settle()
    assert desk.state() is S.PREPARE_ABORT
    successor = Desk().lead(desk.log)
    assert successor.state() is S.COMPLETE_ABORT
    assert [each.commit for _, each in successor.cluster.got] == [False]
    successor.coordinator.close()


def test_markers_are_retried_at_current_leader(desk):
    desk.cluster.leaders[A] = -1
    desk.cluster.down.add(7)
    desk.begin(A, B)
    desk.end()
    desk.settle()
    assert desk.state() is S.PREPARE_COMMIT
    assert desk.coordinator.init_producer_id(ID, 1).error is E.CONCURRENT_TRANSACTIONS
    desk.cluster.leaders[A] = 8
    desk.cluster.codes[8, A] = E.NOT_LEADER_FOR_PARTITION
    until(lambda: desk.cluster.got)
    assert [(broker, each.partitions) for broker, each in desk.cluster.got][:1] == [(8, (A,))]
    for code in (E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR):
        desk.cluster.codes[8, A] = code
        desk.settle()
        assert desk.state() is S.PREPARE_COMMIT
    desk.cluster.codes.clear()
    desk.cluster.down.clear()
    until(lambda: desk.state() is S.COMPLETE_COMMIT)


def test_deleted_topic_and_old_format_need_no_marker(desk):
    desk.cluster.leaders[A] = None
    desk.cluster.codes[7, B] = E.UNSUPPORTED_FOR_MESSAGE_FORMAT
    desk.begin(A, B)
    desk.end()
    until(lambda: desk.state() is S.COMPLETE_COMMIT)


@pytest.mark.parametrize("code", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_coordinator_stops_sending_markers(desk, code):
    desk.cluster.codes[7, A] = code
    desk.begin(A)
    desk.end()
    desk.settle()
    sent = len(desk.cluster.got)
    desk.settle()
    assert (desk.state(), len(desk.cluster.got)) == (S.PREPARE_COMMIT, sent)


def test_released_coordinator_sends_no_marker(desk):
    desk.cluster.down.add(7)
    desk.begin(A)
    desk.end()
    desk.settle()
    desk.coordinator.release(NUMBER)
    desk.settle()
    desk.cluster.down.clear()
    desk.settle()
    assert desk.cluster.got == []


def test_failed_write_changes_no_state(desk):
    desk.begin(A)
    desk.log.fail_with = RequestTimedOut("slow")
    assert desk.end() is E.COORDINATOR_NOT_AVAILABLE
    desk.settle()
    assert (desk.state(), desk.cluster.got) == (S.ONGOING, [])
    assert desk.coordinator.init_producer_id("other-3", 1).error is not E.NONE
    desk.log.fail_with = None
    assert desk.end() is E.NONE


def test_failed_first_write_keeps_no_transaction(desk):
    desk.log.fail_with = NotEnoughReplicas("few")
    assert desk.coordinator.init_producer_id(ID, 1).error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.state() is None
    assert desk.partition().transactions == {}


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
def test_write_failures_map_to_retriable_codes(desk, failure, code):
    # TransactionStateManager.appendTransactionToLog of genuine brokers.
    desk.begin(A)
    desk.log.fail_with = failure
    assert desk.end() is code


def test_loaded_state_is_served_after_replication():
    desk = Desk()
    desk.lead()
    desk.begin(A)
    successor = Desk()
    desk.log.fail_with = StorageError("not yet")
    successor.coordinator.host(NUMBER, successor.led, desk.log)
    successor.settle()
    assert successor.coordinator.verify(ID, *desk.who, [A]) is E.COORDINATOR_LOAD_IN_PROGRESS
    desk.log.fail_with = None
    gevent.sleep(0.15)
    assert successor.coordinator.verify(ID, *desk.who, [A]) is E.NONE
    desk.coordinator.close()
    successor.coordinator.close()


def test_new_epoch_of_same_leadership_does_not_reload(desk):
    desk.begin(A)
    before = desk.partition()
    desk.led.leader_epoch = 8
    desk.lead()
    assert desk.partition() is before
    desk.end()
    desk.settle()
    assert [each.coordinator_epoch for _, each in desk.cluster.got] == [8]


def test_timed_out_transaction_is_aborted(desk):
    desk.begin(A)
    desk.now += 60_000
    assert desk.coordinator.abort_timed_out() == 0
    desk.now += 1
    assert desk.coordinator.abort_timed_out() == 1
    until(lambda: desk.state() is S.COMPLETE_ABORT)
    ((_, marker),) = desk.cluster.got
    assert (marker.producer_epoch, marker.commit) == (desk.who[1] + 1, False)
    assert desk.end() is E.INVALID_PRODUCER_EPOCH


def test_unused_id_expires_with_tombstone():
    desk = Desk(expiration_ms=1000)
    desk.lead().begin(A)
    desk.end()
    desk.settle()
    desk.now += 999
    assert desk.coordinator.expire() == 0
    desk.now += 1
    assert desk.coordinator.expire() == 1
    assert desk.add(A) is E.INVALID_PRODUCER_ID_MAPPING
    assert Desk().lead(desk.log).state() is None
    found = desk.coordinator.init_producer_id(ID, 1)
    assert (found.producer_id, found.producer_epoch) == (desk.who[0] + 1, 0)
    desk.coordinator.close()


def test_concurrent_inits_get_distinct_epochs(desk):
    found = []
    tasks = [
        gevent.spawn(lambda: found.append(desk.coordinator.init_producer_id(ID, 1)))
        for _ in range(3)
    ]
    gevent.joinall(tasks, timeout=5)
    granted = [(each.producer_id, each.producer_epoch) for each in found if each.error is E.NONE]
    assert len(granted) == len(set(granted)) >= 1


def test_waiting_requests_are_parked(desk):
    class Waits(MemoryLog):
        def wait_durable(self, last_offset, timeout_s=None, park=None):
            if park is not None:
                with park(lambda: None):
                    pass

    desk.led = Led()
    desk.lead(Waits())
    park = Park()
    found = desk.coordinator.init_producer_id(ID, 60_000, park)
    assert park.times == 2  # for a producer id, and for the record
    who = (found.producer_id, found.producer_epoch)
    assert desk.coordinator.add_partitions(ID, *who, [A], park) is E.NONE
    assert desk.coordinator.end(ID, *who, commit=True, park=park) is E.NONE
    assert park.times == 4


def counts(desk):
    return desk.coordinator.figures().counts


def test_coordinator_counts_transitions(desk):
    desk.begin(A)
    desk.now += 700
    figures = desk.coordinator.figures()
    assert {state: count for state, count in figures.states.items() if count} == {S.ONGOING: 1}
    assert (figures.oldest_open_ms, figures.counts.begun) == (700, 1)
    desk.end()
    # Decided, and no partition has its marker; `figures` would let the task that sends it run.
    assert desk.coordinator._transitions.counts.commits == 0
    until(lambda: desk.state() is S.COMPLETE_COMMIT)
    assert counts(desk).commits == 1
    assert desk.coordinator.figures().oldest_open_ms == 0
    desk.add(A)
    desk.add(B)
    desk.end(commit=False)
    until(lambda: desk.state() is S.COMPLETE_ABORT)
    assert (counts(desk).begun, counts(desk).aborts) == (2, 1)
    desk.add(A)
    assert desk.coordinator.init_producer_id(ID, 60_000).error is E.CONCURRENT_TRANSACTIONS
    until(lambda: desk.state() is S.COMPLETE_ABORT)
    assert (counts(desk).fenced, counts(desk).aborts, counts(desk).timeouts) == (1, 2, 0)
    desk.begin(A)
    desk.now += 60_001
    assert desk.coordinator.abort_timed_out() == 1
    until(lambda: desk.state() is S.COMPLETE_ABORT)
    assert (counts(desk).fenced, counts(desk).aborts, counts(desk).timeouts) == (1, 3, 1)
    desk.now += 604_800_001
    assert desk.coordinator.expire() == 1
    assert counts(desk).expired == 1
    assert not any(desk.coordinator.figures().states.values())


def test_waiting_and_retried_markers_are_counted(desk):
    desk.begin(A, B)
    desk.cluster.leaders[B] = -1
    desk.cluster.down.add(7)
    desk.end()
    until(lambda: desk.coordinator.figures().marker_retries > 0)
    until(lambda: desk.coordinator.figures().markers_unknown_destination == 1)
    desk.cluster.leaders[B] = 9
    desk.cluster.down.clear()
    until(lambda: desk.state() is S.COMPLETE_COMMIT)
    figures = desk.coordinator.figures()
    assert (figures.markers_unknown_destination, figures.markers_queued) == (0, 0)


def test_marker_without_response_is_queued(desk):
    desk.begin(A)
    answered = gevent.event.Event()
    desk.cluster.before_answer = answered.wait
    desk.end()
    until(lambda: desk.coordinator.figures().markers_queued == 1)
    answered.set()
    until(lambda: desk.coordinator.figures().markers_queued == 0)


def test_failed_completion_write_is_counted(desk):
    desk.begin(A)
    answered = gevent.event.Event()
    desk.cluster.before_answer = answered.wait
    desk.end()
    until(lambda: desk.coordinator.figures().markers_queued == 1)
    desk.log.fail_with = NotEnoughReplicas("too few")
    answered.set()
    until(lambda: desk.coordinator.figures().appends_retried == 1)
    assert counts(desk).failed_writes > 0
    desk.log.fail_with = None


def test_completion_is_rewritten_after_failed_flush(desk):
    desk.begin(A)
    answered = gevent.event.Event()
    desk.cluster.before_answer = answered.wait
    desk.end()
    until(lambda: desk.coordinator.figures().markers_queued == 1)
    desk.log.fail_with = StorageError("Too many open files")
    answered.set()
    until(lambda: counts(desk).failed_writes > 0)
    desk.log.fail_with = None
    until(lambda: desk.state() is S.COMPLETE_COMMIT)


def test_leadership_lost_during_load_logs_no_error(desk, caplog):
    caplog.set_level(logging.INFO)

    class Moved(MemoryLog):
        def read_bytes(self, offset, max_bytes):
            raise NotLeaderForPartition("elsewhere")

    desk.begin(A)
    moved = Moved()
    moved.segments, moved.log_end_offset = desk.log.segments, desk.log.log_end_offset
    before = desk.log
    desk.led = Led()
    desk.lead(moved)
    until(lambda: "loading ends" in caplog.text)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert desk.add(B) is E.COORDINATOR_LOAD_IN_PROGRESS
    desk.led = Led()
    desk.lead(before)
    until(lambda: desk.state() is S.ONGOING)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": S.DEAD},
        {"state": S.PREPARE_EPOCH_FENCE},
        {"producer_id": -1},
        {"producer_epoch": -1},
    ],
)
def test_invalid_stored_record_is_skipped(changed):
    log, desk = MemoryLog(), Desk()
    value = {"producer_id": 9, "producer_epoch": 0, "timeout_ms": 1, "state": S.EMPTY, **changed}
    stored = encode_transaction(TransactionValue(**value))
    data = encode_message_set([(encode_transaction_key(ID), stored, 0, ())])
    log.append(bytearray(data))
    desk.lead(log)
    found = desk.coordinator.init_producer_id(ID, 60_000)
    assert (found.error, found.producer_id, found.producer_epoch) == (E.NONE, 500, 0)
    desk.coordinator.close()


def test_failed_timeout_check_is_repeated(monkeypatch):
    desk = Desk(abort_check_ms=1)
    checks = []

    def check():
        checks.append(1)
        if len(checks) == 1:
            raise ValueError("once")

    monkeypatch.setattr(desk.coordinator, "abort_timed_out", check)
    desk.coordinator.start()
    until(lambda: len(checks) > 1)
    desk.coordinator.close()


def test_id_is_not_kept_after_unexpected_write_error(desk, monkeypatch):
    def write(*_):
        raise ValueError("no record")

    monkeypatch.setattr(desk.partition().store, "write", write)
    with pytest.raises(ValueError, match="no record"):
        desk.coordinator.init_producer_id(ID, 60_000)
    assert desk.partition().transactions == {}


def used(desk):
    return desk.partition().size_bytes


def test_ids_and_partitions_are_bounded_by_memory_limit(caplog):
    desk = Desk(metadata_bytes=size_of(ID) + 2 * PARTITION_BYTES, expiration_ms=1000).lead()
    desk.begin(A, B)
    assert used(desk) == desk.coordinator._settings.metadata_bytes
    assert desk.add(A, B) is E.NONE
    assert desk.add(("t", 1)) is E.POLICY_VIOLATION
    other = next(f"other-{n}" for n in range(99) if key_partition(f"other-{n}", COUNT) == NUMBER)
    assert desk.coordinator.init_producer_id(other, 60_000).error is E.POLICY_VIOLATION
    assert other not in desk.partition().transactions
    assert "transaction.metadata.max.bytes" in caplog.text
    assert desk.end() is E.NONE
    desk.settle()
    assert used(desk) == size_of(ID)
    desk.now += 5000
    assert desk.coordinator.expire() == 1
    assert used(desk) == 0
    assert desk.coordinator.init_producer_id(other, 60_000).error is E.NONE
    desk.coordinator.close()


def test_loaded_ids_count_against_memory():
    first = Desk().lead().begin(A)
    second = Desk().lead(first.log)
    assert used(second) == used(first) == size_of(ID) + PARTITION_BYTES
    for each in (first, second):
        each.coordinator.close()


def test_next_transaction_waits_for_previous_end(desk):
    desk.begin(A)
    assert desk.end() is E.NONE
    park = Park()
    assert desk.state() is S.PREPARE_COMMIT
    assert desk.add(B, park=park) is E.NONE
    assert desk.state() is S.ONGOING
    assert counts(desk).commits == 1
    assert park.times == 1


def test_wait_for_previous_end_is_bounded(desk):
    desk.cluster.down.add(7)
    desk.begin(A)
    desk.end()
    with gevent.Timeout(20):
        assert desk.add(B) is E.CONCURRENT_TRANSACTIONS
    assert desk.state() is S.PREPARE_COMMIT


def test_waiting_request_is_refused_after_release(desk):
    desk.cluster.down.add(7)
    desk.begin(A)
    desk.end()
    waiting = gevent.spawn(desk.add, B)
    gevent.sleep(0.01)
    desk.coordinator.release(NUMBER)
    assert waiting.get(timeout=20) is E.NOT_COORDINATOR
