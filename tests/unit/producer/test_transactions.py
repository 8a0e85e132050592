"""Transactions of a producer against fake brokers with a coordinator."""

import threading
from types import SimpleNamespace

import pytest

from tests.support.fake_broker import CLOSE, LOSE_ANSWER
from tests.support.fake_coordinator import CoordinatedCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.client.group_offsets import Committed
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError, RequestTimedOut
from zkbroker.producer import (
    EncodedBatch,
    InvalidTransactionState,
    KeyedMessage,
    ProducerClosed,
    ProducerFenced,
    SendFailed,
    TransactionAbortable,
    TransactionAborted,
    TransactionFatal,
)
from zkbroker.protocol import ApiKey
from zkbroker.records import iter_entries


@pytest.fixture
def fake():
    with CoordinatedCluster(2) as cluster:
        cluster.create("t", [0, 1])
        yield cluster


def transactional(fake, runtime="threads", **properties):
    return asynchronous(fake, runtime, transactional_id="id", **properties)


def message(value: bytes, partition: int = 0) -> KeyedMessage:
    return KeyedMessage("t", value, partition=partition)


def first(answers):
    """Return a fault with these answers, one after the other, then none."""
    left = list(answers)
    return lambda request: left.pop(0) if left else None


def answer_on_all(fake, api, answers):
    fault = first(answers)
    for number in fake.brokers:
        fake.faults[api, number] = fault


def entries(fake, partition=0):
    return [
        entry for data in fake.log("t", partition).sets for entry in iter_entries(memoryview(data))
    ]


# -- committed


@RUNTIMES
def test_transaction_is_committed_in_order_of_requests(fake, runtime):
    with transactional(fake, runtime) as producer:
        producer.begin()
        futures = [producer.send(message(b"%d" % n, n % 2)) for n in range(10)]
        producer.send_offsets({("in", 0): 5, ("in", 1): Committed(6, "m")}, "g")
        assert fake.offsets == {}
        producer.commit()
        assert all(future.done() for future in futures)
    found = fake.transactions["id"]
    assert found.ends == [True]
    assert fake.stray == []
    assert fake.offsets == {("g", "in", 0): 5, ("g", "in", 1): 6}
    assert fake.values("t", 0) + fake.values("t", 1) == [
        b"%d" % n for n in (*range(0, 10, 2), *range(1, 10, 2))
    ]
    assert fake.asked.index("INIT_PRODUCER_ID") < fake.asked.index("ADD_PARTITIONS_TO_TXN")
    assert fake.asked[-1] == "END_TXN"
    for entry in (*entries(fake, 0), *entries(fake, 1)):
        assert entry.is_transactional
        assert (entry.producer_id, entry.producer_epoch) == (found.producer_id, 0)


def test_partitions_are_added_once_and_together(fake):
    fake.create("many", [0, 1, 0, 1, 0, 1])
    with transactional(fake, queue_time=3_600_000) as producer:
        for _ in range(2):
            with producer.transaction():
                for round_number in range(2):
                    for number in range(6):
                        producer.send(KeyedMessage("many", b"x", partition=number))
                    producer.flush()
                    assert round_number or fake.stray == []
    assert fake.asked.count("ADD_PARTITIONS_TO_TXN") == 2
    assert fake.stray == []


def test_empty_transaction_sends_no_request(fake):
    with transactional(fake) as producer:
        with producer.transaction():
            pass
        producer.begin()
        producer.abort()
    assert "END_TXN" not in fake.asked


def test_encoded_batch_is_part_of_transaction(fake):
    reported = []
    with transactional(fake) as producer:
        producer.begin()
        producer.send_batch(EncodedBatch("t", 0, reported.append, records=[(None, b"a", 1, ())]))
        producer.commit()
        # The commit waited for the batch, which bypasses the send queue.
        assert [batch.error for batch in reported] == [None]
    assert [entry.is_transactional for entry in entries(fake)] == [True]


@RUNTIMES
def test_sync_send_works_in_transaction(fake, runtime):
    with make(fake, runtime, transactional_id="id") as producer, producer.transaction():
        assert producer.send(message(b"a")).offset == 0
        assert [each.offset for each in producer.send([message(b"b"), message(b"c")])] == [1, 2]
    assert fake.transactions["id"].ends == [True]


def test_send_offsets_accepts_object_with_group_id(fake):
    with transactional(fake) as producer, producer.transaction():
        producer.send_offsets({("in", 0): 5}, SimpleNamespace(group_id="named"))
    assert fake.offsets == {("named", "in", 0): 5}


def test_group_is_added_once_per_transaction(fake):
    with transactional(fake) as producer:
        with producer.transaction():
            producer.send_offsets({("in", 0): 5}, "g")
            producer.send_offsets({("in", 0): 6}, "g")
            producer.send_offsets({}, "other")
        with producer.transaction():
            producer.send_offsets({("in", 0): 7}, "g")
    assert fake.asked.count("ADD_OFFSETS_TO_TXN") == 2
    assert fake.transactions["id"].ends == [True, True]
    assert fake.offsets == {("g", "in", 0): 7}


# -- aborting


@RUNTIMES
def test_abort_drops_unsent_messages(fake, runtime):
    with transactional(fake, runtime, queue_time=100_000) as producer:
        producer.begin()
        stored = producer.send(message(b"stored"))
        producer.flush()
        dropped = producer.send(message(b"dropped"))
        producer.send_offsets({("in", 0): 5}, "g")
        producer.abort()
        assert stored.exception() is None
        assert isinstance(dropped.exception(WAIT_S), TransactionAborted)
        with producer.transaction():
            producer.send(message(b"next"))
        counts = producer.metrics()
        assert (counts["transactions_committed"], counts["transactions_aborted"]) == (1, 1)
    assert fake.transactions["id"].ends == [False, True]
    assert fake.values("t", 0) == [b"stored", b"next"]
    assert fake.offsets == {}


def test_transaction_context_aborts_on_exception(fake):
    with transactional(fake) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(message(b"a"))
            producer.flush()
            raise ZeroDivisionError
        with producer.transaction():
            producer.send(message(b"b"))
    assert fake.transactions["id"].ends == [False, True]


def test_close_aborts_open_transaction(fake, caplog):
    with transactional(fake) as producer:
        producer.begin()
        producer.send(message(b"a"))
        producer.flush()
    assert fake.transactions["id"].ends == [False]
    assert "closed in a transaction" in caplog.text


# -- refused calls


def test_calls_outside_transaction_are_refused(fake):
    with transactional(fake) as producer:
        for _ in range(2):
            with pytest.raises(InvalidTransactionState, match=r"begin\(\)"):
                producer.send(message(b"outside"))
            with pytest.raises(InvalidTransactionState):
                producer.send_batch(EncodedBatch("t", 0, print, records=[(None, b"", 1, ())]))
            with producer.transaction():
                producer.send(message(b"inside"))
        for call in (producer.commit, producer.abort, lambda: producer.send_offsets({}, "g")):
            with pytest.raises(InvalidTransactionState):
                call()
        producer.begin()
        with pytest.raises(InvalidTransactionState):
            producer.begin()
        with pytest.raises(InvalidTransactionState):
            producer.init_transactions()
        producer.abort()
    assert fake.values("t", 0) == [b"inside"] * 2
    with pytest.raises(ProducerClosed):
        producer.begin()


def test_begin_requires_transactional_id(fake):
    with asynchronous(fake) as producer, pytest.raises(ConfigError, match=r"transactional\.id"):
        producer.begin()


def test_settings_that_contradict_transactional_id_are_refused():
    given = {"metadata.broker.list": "b:1", "transactional.id": "x"}
    config = ProducerConfig.from_properties(given)
    assert (config.idempotence, config.required_acks) == (True, -1)
    for key, value in (("enable.idempotence", "false"), ("acks", "1"), ("acks", "0")):
        with pytest.raises(ConfigError, match=r"transactional\.id"):
            ProducerConfig.from_properties(given | {key: value})
    same = {"enable.idempotence": "true", "acks": "all"}
    assert ProducerConfig.from_properties(given | same) == config


# -- errors of coordinators


TRANSACTION_APIS = [
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]


def send_transaction(producer):
    with producer.transaction():
        producer.send(message(b"a", 0))
        producer.send(message(b"b", 1))
        producer.send_offsets({("in", 0): 5}, "g")


@pytest.mark.parametrize("api", TRANSACTION_APIS)
def test_retriable_errors_and_lost_responses_are_retried(fake, api):
    passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS]
    answer_on_all(fake, api, [*passing, CLOSE, LOSE_ANSWER, *passing])
    with transactional(fake) as producer:
        send_transaction(producer)
    assert fake.transactions["id"].ends == [True]
    assert (fake.values("t", 0), fake.values("t", 1)) == ([b"a"], [b"b"])
    assert fake.offsets == {("g", "in", 0): 5}


@RUNTIMES
@pytest.mark.parametrize("api", TRANSACTION_APIS[1:])
def test_moved_coordinator_is_found(fake, runtime, api):
    def move(request):
        if fake.coordinator == 0:
            fake.coordinator = 1
            return LOSE_ANSWER
        return None

    fake.faults[api, 0] = move
    with transactional(fake, runtime) as producer:
        send_transaction(producer)
        send_transaction(producer)
    assert fake.transactions["id"].ends == [True, True]
    assert fake.values("t", 0) == [b"a", b"a"]


@pytest.mark.parametrize("api", TRANSACTION_APIS)
@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced, "another producer began under this id"),
        (ErrorCode.INVALID_TXN_STATE, TransactionFatal, "INVALID_TXN_STATE"),
    ],
)
def test_fatal_error_code_makes_producer_unusable(fake, api, code, error, text):
    answer_on_all(fake, api, [code] * 100)
    producer = transactional(fake)
    with pytest.raises(error, match=text):
        send_transaction(producer)
    for call in (
        producer.begin,
        producer.commit,
        producer.abort,
        lambda: producer.send(message(b"")),
    ):
        with pytest.raises(error):
            call()
    producer.close()


def test_transaction_timeout_above_broker_limit_is_named(fake):
    answer_on_all(fake, ApiKey.INIT_PRODUCER_ID, [ErrorCode.INVALID_TRANSACTION_TIMEOUT])
    producer = transactional(fake)
    with pytest.raises(TransactionFatal, match=r"transaction\.max\.timeout\.ms"):
        producer.init_transactions()
    producer.close()


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_abortable_error_allows_next_transaction(fake, api, code):
    answer_on_all(fake, api, [code])
    with transactional(fake) as producer:
        with pytest.raises(TransactionAbortable, match=code.name):
            send_transaction(producer)
        send_transaction(producer)
    assert fake.transactions["id"].ends[-1] is True
    assert fake.offsets == {("g", "in", 0): 5}


def test_init_can_be_repeated_after_unreachable_coordinator(fake):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer_on_all(fake, ApiKey.INIT_PRODUCER_ID, [code] * 1000)
    with transactional(fake) as producer:
        with pytest.raises(ProtocolError):
            producer.init_transactions(timeout_s=0.2)
        fake.faults.clear()
        producer.init_transactions()
        producer.init_transactions()
        send_transaction(producer)
    assert fake.asked.count("ADD_OFFSETS_TO_TXN") == 1


def test_commit_without_response_can_only_be_repeated(fake):
    answer_on_all(fake, ApiKey.END_TXN, [LOSE_ANSWER] * 1000)
    with transactional(fake) as producer:
        producer.begin()
        producer.send(message(b"a"))
        producer.flush()
        with pytest.raises(ProtocolError):
            producer.commit(timeout_s=1.0)
        with pytest.raises(InvalidTransactionState, match=r"commit\(\) again"):
            producer.abort()
        fake.faults.clear()
        producer.commit()
        send_transaction(producer)
    assert fake.transactions["id"].ends == [True, True]


def test_abort_before_partitions_were_added_ends_no_transaction(fake):
    answer_on_all(
        fake, ApiKey.ADD_PARTITIONS_TO_TXN, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 10_000
    )
    with transactional(fake) as producer:
        producer.begin()
        sent = producer.send(message(b"a"))
        producer.abort()
        assert isinstance(sent.exception(WAIT_S), TransactionAborted)
        fake.faults.clear()
        send_transaction(producer)
    assert fake.transactions["id"].ends == [True]


def test_broker_without_transactions_is_refused(fake):
    fake.versions[int(ApiKey.FIND_COORDINATOR)] = (0, 0)
    producer = transactional(fake)
    with pytest.raises(TransactionFatal, match="has no transactions"):
        producer.init_transactions()
    producer.close()


# -- messages that fail


@RUNTIMES
def test_failed_message_fails_transaction(fake, runtime):
    with transactional(fake, runtime) as producer:
        producer.begin()
        producer.send(message(b"fits"))
        producer.flush()
        fake.max_message_bytes = 100
        large = producer.send(message(b"x" * 200))
        assert large.exception(WAIT_S) is not None
        with pytest.raises(TransactionAbortable, match="not stored"):
            producer.commit()
        with pytest.raises(TransactionAbortable):
            producer.send(message(b"late"))
        with pytest.raises(TransactionAbortable):
            producer.begin()
        producer.abort()
        # The sequence numbers continue under the same producer id.
        with producer.transaction():
            producer.send(message(b"next"))
    assert fake.values("t", 0) == [b"fits", b"next"]
    assert fake.transactions["id"].ends == [False, True]
    assert fake.asked.count("INIT_PRODUCER_ID") == 1


def test_messages_waiting_after_failure_are_not_sent(fake):
    fake.create("gone", [None])
    gate = threading.Event()
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: (
        gate.wait(WAIT_S) and ErrorCode.INVALID_REQUIRED_ACKS
    )
    with transactional(fake) as producer:
        producer.begin()
        refused = producer.send(message(b"refused"))
        waiting = producer.send(KeyedMessage("gone", b"waits"))
        gate.set()
        assert refused.exception(WAIT_S) is not None
        assert isinstance(waiting.exception(WAIT_S), TransactionAborted)
        with pytest.raises(TransactionAbortable, match="INVALID_REQUIRED_ACKS"):
            producer.commit()
        producer.abort()


def test_failed_sync_send_aborts_transaction_context(fake):
    with make(fake, transactional_id="id") as producer:
        with pytest.raises(SendFailed), producer.transaction():
            producer.send(message(b"a", 7))
        with producer.transaction():
            producer.send(message(b"b"))
    assert fake.values("t", 0) == [b"b"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionFatal),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, TransactionFatal),
        (ErrorCode.INVALID_TXN_STATE, TransactionAbortable),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionAbortable),
    ],
)
def test_produce_error_code_decides_kind_of_transaction_error(fake, code, kind):
    producer = transactional(fake)
    producer.begin()
    producer.send(message(b"a"))
    producer.flush()
    fake.faults[ApiKey.PRODUCE, 0] = first([code] * 100)
    producer.send(message(b"b"))
    with pytest.raises(kind):
        producer.commit()
    if issubclass(kind, TransactionAbortable):
        fake.faults.clear()
        producer.abort()
        send_transaction(producer)
        assert fake.values("t", 0) == [b"a", b"a"]
    producer.close()


def test_unknown_producer_id_restarts_sequence_numbers(fake):
    with transactional(fake) as producer:
        send_transaction(producer)
        fake.faults[ApiKey.PRODUCE, 0] = first([ErrorCode.UNKNOWN_PRODUCER_ID])
        fake.log("t", 0).producers.clear()
        send_transaction(producer)
    assert [entry.base_sequence for entry in entries(fake)] == [0, 0]
    assert fake.transactions["id"].ends == [True, True]


def test_message_with_unknown_outcome_is_fatal(fake):
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: LOSE_ANSWER
    producer = transactional(fake, delivery_timeout_ms=2000)
    producer.begin()
    producer.send(message(b"a"))
    with pytest.raises(TransactionFatal, match="it is not known which"):
        producer.commit(WAIT_S)
    producer.close()


def test_transactional_batch_is_stored_once_after_lost_responses(fake):
    fake.faults[ApiKey.PRODUCE, 0] = first([LOSE_ANSWER] * 3)
    with transactional(fake) as producer:
        send_transaction(producer)
        send_transaction(producer)
    assert fake.values("t", 0) == [b"a", b"a"]


def test_close_raises_transaction_error_not_raised_before(fake):
    fake.max_message_bytes = 100
    producer = transactional(fake)
    producer.begin()
    failed = producer.send(message(b"x" * 200))
    assert failed.exception(WAIT_S) is not None
    with pytest.raises(TransactionAbortable, match="not stored"):
        producer.close()


def test_end_waits_until_partitions_are_added(fake):
    asked, gate = threading.Event(), threading.Event()

    def wait(request):
        asked.set()
        gate.wait(WAIT_S)

    fake.faults[ApiKey.ADD_PARTITIONS_TO_TXN, 0] = wait
    with transactional(fake, queue_time=1) as producer:
        producer.begin()
        producer.send(message(b"a"))
        assert asked.wait(WAIT_S)
        # No produce request is in flight; only the response of the coordinator is missing.
        with pytest.raises(RequestTimedOut, match="not aborted yet"):
            producer.abort(timeout_s=0.3)
        assert "END_TXN" not in fake.asked
        gate.set()
        producer.abort()
        send_transaction(producer)
    assert fake.transactions["id"].ends == [False, True]


def test_abort_does_not_wait_for_leaderless_topic(fake):
    fake.create("gone", [None])
    with transactional(fake) as producer:
        producer.begin()
        waiting = producer.send(KeyedMessage("gone", b"waits"))
        producer.abort(timeout_s=WAIT_S)
        assert isinstance(waiting.exception(0), TransactionAborted)


# -- concurrent calls and producers


def test_concurrent_call_is_refused(fake):
    entered, gate = threading.Event(), threading.Event()

    def wait(request):
        entered.set()
        gate.wait(WAIT_S)

    fake.faults[ApiKey.END_TXN, 0] = wait
    with transactional(fake) as producer:
        producer.begin()
        producer.send(message(b"a"))
        committing = threading.Thread(target=producer.commit)
        committing.start()
        assert entered.wait(WAIT_S)
        with pytest.raises(InvalidTransactionState, match="under way in another task"):
            producer.abort()
        gate.set()
        committing.join(WAIT_S)
    assert fake.transactions["id"].ends == [True]


def test_second_producer_fences_first(fake):
    with transactional(fake) as second:
        older = transactional(fake)
        older.begin()
        older.send(message(b"a"))
        older.flush()
        second.init_transactions()
        with pytest.raises(ProducerFenced):
            older.commit()
        older.close()
        send_transaction(second)
    assert fake.transactions["id"].ends == [False, True]
