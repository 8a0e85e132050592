"""Meaning of each error code of a coordinator, for each request."""

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.client.group_offsets import Committed
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.producer import ProducerFenced, TransactionAbortable, TransactionFatal
from zkbroker.producer.transaction_requests import TransactionRequests
from zkbroker.producer.transaction_state import ProducerTransactionState
from zkbroker.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from zkbroker.protocol.messages.transactions import TxnPartitionError, TxnTopicErrors
from zkbroker.runtime import get_runtime


class FakeCoordinator(PlayedCluster):
    """Answers requests with the same error codes.

    Args:
        codes: of the partitions, or the first of them.
        times: how often; without an error from then on.
    """

    def __init__(self, *codes, times=10**9):
        super().__init__()
        self.codes = codes
        self.times = times

    @property
    def requests(self):
        return [request for _, request, _ in self.asked]

    def connection(self, broker_id, lane="", *, timeout_s=None):
        assert lane == "transactions"
        return super().connection(broker_id)

    def answer(self, connection, request):
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(node_id=3)
        self.times -= 1
        codes = self.codes if self.times >= 0 else (0,)
        code = codes[0]
        parts = [TxnPartitionError(number, each) for number, each in enumerate(codes)]
        return {
            InitProducerIdRequest: InitProducerIdResponse(
                throttle_time_ms=0, error_code=code, producer_id=7, producer_epoch=1
            ),
            AddPartitionsToTxnRequest: AddPartitionsToTxnResponse(0, [TxnTopicErrors("t", parts)]),
            AddOffsetsToTxnRequest: AddOffsetsToTxnResponse(0, code),
            TxnOffsetCommitRequest: TxnOffsetCommitResponse(0, [TxnTopicErrors("t", parts)]),
            EndTxnRequest: EndTxnResponse(0, code),
        }[type(request)]


def make(coordinator):
    config = ProducerConfig.from_properties(
        {"metadata.broker.list": "b:1", "transactional.id": "id", "retry.backoff.ms": "1"}
    )
    runtime = get_runtime("threads")
    state = ProducerTransactionState(runtime.guard())
    state.initialized(7, 1)
    return TransactionRequests(config, coordinator, runtime, state), state


CALLS = {
    "init": lambda requests: requests.init_producer_id(20),
    "add_partitions": lambda requests: requests.add_partitions([("t", 0)], 20, lambda: False),
    "add_offsets": lambda requests: requests.add_offsets("g", 20),
    "commit_offsets": lambda requests: requests.commit_offsets("g", {("t", 0): Committed(3)}, 20),
    "commit": lambda requests: requests.end(commit=True, timeout_s=20),
    "abort": lambda requests: requests.end(commit=False, timeout_s=20),
}
CALLS_WITH_TOPICS = ("add_partitions", "commit_offsets")
PASSING = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
ABORTABLE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
}


@pytest.mark.parametrize("call", CALLS)
def test_every_error_code_of_a_response_is_classified(call):
    passing = PASSING | (
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if call in CALLS_WITH_TOPICS else set()
    )
    for code in filter(None, ErrorCode):
        coordinator = FakeCoordinator(code, times=3)
        requests, state = make(coordinator)
        state.start_known = True
        if code in passing:
            CALLS[call](requests)
        else:
            expected = TransactionAbortable if code in ABORTABLE else TransactionFatal
            if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                expected = ProducerFenced
            with pytest.raises(expected, match=code.name):
                CALLS[call](requests)
        sent = [each for each in coordinator.requests if type(each) is not FindCoordinatorRequest]
        assert len(sent) == (4 if code in passing else 1), code


def test_last_retriable_error_is_raised_after_timeout():
    requests, _ = make(FakeCoordinator(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        requests.init_producer_id(0.02)


@pytest.mark.parametrize("call", CALLS)
def test_error_code_90_fences_producer(call):
    requests, _ = make(FakeCoordinator(90))
    with pytest.raises(ProducerFenced):
        CALLS[call](requests)


def test_invalid_txn_state_is_accepted_only_by_abort_of_unknown_transaction():
    requests, state = make(FakeCoordinator(ErrorCode.INVALID_TXN_STATE))
    CALLS["abort"](requests)
    with pytest.raises(TransactionFatal):
        CALLS["commit"](requests)
    state.start_known = True
    with pytest.raises(TransactionFatal):
        CALLS["abort"](requests)


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ((55, 29, 0), "TOPIC_AUTHORIZATION_FAILED"),
        ((29, 47), "INVALID_PRODUCER_EPOCH"),
        ((3, 29), "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_gravest_error_of_several_partitions_is_raised(codes, kind):
    requests, _ = make(FakeCoordinator(*codes))
    with pytest.raises((TransactionAbortable, TransactionFatal, ProtocolError), match=kind):
        CALLS["add_partitions"](requests)


def test_requests_carry_identity_and_go_to_their_coordinator():
    coordinator = FakeCoordinator(0)
    requests, _ = make(coordinator)
    for call in CALLS.values():
        call(requests)
    lookups = [each for each in coordinator.requests if isinstance(each, FindCoordinatorRequest)]
    assert [(each.key, each.key_type) for each in lookups] == [("id", 1), ("g", 0)]
    for each in coordinator.requests:
        if hasattr(each, "producer_id"):
            assert (each.transactional_id, each.producer_id, each.producer_epoch) == ("id", 7, 1)
