"""Leader changes during sends: messages are stored, and once with sequence numbers."""

import threading

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.errors import ErrorCode
from zkbroker.producer import KeyedMessage, SendFailed
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ProduceResponse
from zkbroker.protocol.messages.produce import ProduceResponsePartition, ProduceResponseTopic


@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_leader_change_errors_are_retried(fake, acks, code):
    requests: list[object] = []

    def refuse_once(request: object) -> object:
        requests.append(request)
        return code if len(requests) == 1 else None

    fake.faults[ApiKey.PRODUCE, 0] = refuse_once
    with make(fake, acks=acks) as producer:
        assert producer.send(KeyedMessage("t", b"a")).offset == 0
    assert [request.acks for request in requests] == [1 if acks == "1" else -1] * 2
    assert fake.values("t", 0) == [b"a"]


def store_and_answer(fake: FakeCluster, code: ErrorCode) -> None:
    """Have broker 0 store its first batch, and answer with an error of its replicas."""
    stored = threading.Event()

    def fault(request: object) -> object:
        if stored.is_set():
            return None
        stored.set()
        fake._produce(fake.brokers[0], request, None)
        failed = ProduceResponsePartition(partition=0, error_code=code, base_offset=-1)
        return ProduceResponse(topics=[ProduceResponseTopic(topic="t", partitions=[failed])])

    fake.faults[ApiKey.PRODUCE, 0] = fault


AFTER_APPEND = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT]


@RUNTIMES
@pytest.mark.parametrize("code", AFTER_APPEND)
def test_idempotent_batch_stored_before_error_is_not_stored_twice(fake, runtime, code):
    store_and_answer(fake, code)
    with make(fake, runtime, acks="all", enable_idempotence="true") as producer:
        assert producer.send(KeyedMessage("t", b"a")).offset == 0
    assert fake.values("t", 0) == [b"a"]


@pytest.mark.parametrize("code", AFTER_APPEND)
def test_final_error_says_message_may_be_stored(fake, code):
    store_and_answer(fake, code)
    with (
        make(fake, acks="all", retries=0) as producer,
        pytest.raises(SendFailed, match="may be stored"),
    ):
        producer.send(KeyedMessage("t", b"a"))


@RUNTIMES
@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_offsets_and_order_are_kept_across_leader_changes(runtime, idempotence):
    with FakeCluster(2) as fake:
        fake.create("t", [0])
        futures = []
        with asynchronous(fake, runtime, enable_idempotence=idempotence, acks="all") as producer:
            for i in range(300):
                if i in (100, 200):
                    fake.leaders["t"][0] = 1 - fake.leaders["t"][0]
                futures.append(producer.send(KeyedMessage("t", b"%d" % i)))
            assert [future.result(WAIT_S).offset for future in futures] == list(range(300))
        assert fake.values("t", 0) == [b"%d" % i for i in range(300)]


def test_long_election_is_waited_for_unless_retries_are_set(fake):
    refusals: list[object] = []

    def elect_late(request: object) -> object:
        refusals.append(request)
        return ErrorCode.NOT_LEADER_FOR_PARTITION if len(refusals) < 10 else None

    fake.faults[ApiKey.PRODUCE, 0] = elect_late
    with make(fake) as producer:
        assert producer.send(KeyedMessage("t", b"a")).offset == 0
    assert len(refusals) == 10
    refusals.clear()
    with make(fake, retries=3) as producer, pytest.raises(SendFailed, match="4 attempts"):
        producer.send(KeyedMessage("t", b"b"))
