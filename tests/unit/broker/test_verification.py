"""Verification of transactions: the coordinator that is asked, and the producer's error code."""

from types import SimpleNamespace

import pytest

from tests.support.replicas import Park
from zkbroker.broker.verification import TransactionVerifier
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ErrorCode, NetworkError, ProtocolError
from zkbroker.protocol.messages import VerifyTransactionResponse
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.messages.verify_transaction import VerificationResult, VerifiedTransaction
from zkbroker.runtime import get_runtime

E = ErrorCode
OWN, OTHER = 1, 2
NUMBER = key_partition("id", 5)


class Verification:
    """A verifier, with a local coordinator, a view and a recorder of requests to other brokers."""

    def __init__(self, leader=OWN, code=E.NONE, **more):
        self.code, self.asked, self.sent = code, [], []
        self.leader = leader
        self.partitions = 5
        self.verifier = TransactionVerifier(
            SimpleNamespace(verify=self.verify),
            SimpleNamespace(
                assignment=lambda topic: dict.fromkeys(range(self.partitions), (1,)),
                leader=lambda topic, number: (self.leader if number == NUMBER else 99, 0),
                own=SimpleNamespace(id=OWN),
            ),
            self.send,
            runtime=get_runtime("gevent"),
            **more,
        )

    def verify(self, *asked):
        self.asked.append(asked)
        return self.code

    def send(self, broker, request):
        self.sent.append((broker, request))
        if isinstance(self.code, Exception):
            raise self.code
        ids = [each.transactional_id for each in request.transactions]
        return VerifyTransactionResponse(
            results=[VerificationResult(id_, self.code) for id_ in ids]
        )

    def check(self):
        self.verifier.check("id", 7, 3, [("t", 0)])

    def refused(self):
        with pytest.raises(ProtocolError) as raised:
            self.check()
        return raised.value.code


def test_local_coordinator_is_called_without_a_request():
    verification = Verification()
    verification.check()
    assert verification.asked == [("id", 7, 3, [("t", 0)])]
    assert verification.sent == []


def test_remote_coordinator_gets_a_request():
    verification = Verification(OTHER)
    verification.check()
    assert verification.asked == []
    ((broker, request),) = verification.sent
    asked = VerifiedTransaction("id", 7, 3, [TxnTopicPartitions("t", [0])])
    assert (broker, request.transactions) == (OTHER, [asked])


@pytest.mark.parametrize("leader", [OWN, OTHER])
@pytest.mark.parametrize(
    ("coordinator_code", "producer_code"),
    [
        (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TXN_STATE),
        (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_REQUEST, E.INVALID_TXN_STATE),
        (E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_ENOUGH_REPLICAS),
    ],
)
def test_coordinator_error_is_translated_for_the_producer(leader, coordinator_code, producer_code):
    assert Verification(leader, coordinator_code).refused() is producer_code


def test_unreachable_coordinator_is_a_retriable_error():
    assert Verification(OTHER, NetworkError("gone")).refused() is E.NOT_ENOUGH_REPLICAS
    assert Verification(-1).refused() is E.NOT_ENOUGH_REPLICAS


def test_unknown_transaction_topic_is_a_retriable_error():
    verification = Verification()
    verification.partitions = 0
    assert verification.refused() is E.NOT_ENOUGH_REPLICAS


def test_nothing_is_verified_when_disabled():
    verification = Verification(code=E.INVALID_TXN_STATE, enabled=False)
    verification.check()
    assert verification.asked == verification.sent == []


def test_request_is_parked_only_for_remote_verification():
    park = Park()
    Verification().verifier.check("id", 7, 3, [("t", 0)], park)
    assert park.times == 0
    Verification(OTHER).verifier.check("id", 7, 3, [("t", 0)], park)
    assert park.times == 1
