"""Requests to a coordinator: look-ups, retries and moves."""

import pytest

from zkbroker.client import BrokerUnavailable, NoBrokersAvailable
from zkbroker.client.coordinator import RETRIED, CoordinatorConnection
from zkbroker.errors import (
    ErrorCode,
    NetworkError,
    ProtocolError,
    RequestTimedOut,
    UnsupportedVersion,
)
from zkbroker.protocol.messages import (
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from zkbroker.protocol.messages.membership import TRANSACTION_COORDINATOR
from zkbroker.runtime import get_runtime

REQUEST = HeartbeatRequest("g", 1, "m")


class Answer:
    def __init__(self, response):
        self.response = response

    def wait(self, timeout_s):
        return True

    def result(self, timeout_s=None):
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


class FakeCluster:
    """Answers look-ups and requests from lists, and keeps them."""

    def __init__(self, lookups, answers):
        self.lookups, self.answers = list(lookups), list(answers)
        self.asked = []
        self.keys = []
        self.find_version = 1
        self.refreshed = 0

    def ask_any(self, question, *, timeout_s=None):
        found = self.lookups.pop(0)
        if isinstance(found, Exception):
            raise found
        self.asked.append("find")
        response = (
            FindCoordinatorResponse(node_id=found)
            if found >= 0
            else FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        )

        def request(connection, request, timeout_s):
            self.keys.append((request.key, request.key_type))
            return response

        methods = {
            "request": request,
            "best_version": lambda connection, key: self.find_version,
            "address": "b:1",
        }
        return question(type("Connection", (), methods)(), timeout_s)

    def connection(self, broker_id, lane="", *, timeout_s=None):
        self.asked.append((broker_id, lane))
        answer = self.answers.pop(0)
        if isinstance(answer, BrokerUnavailable):
            raise answer
        return type("Connection", (), {"send": lambda self, request: Answer(answer)})()

    def refresh(self, topics=None):
        self.refreshed += 1
        raise NoBrokersAvailable("none")


def ask(lookups, answers, timeout_s=5.0, **options):
    cluster = FakeCluster(lookups, answers)
    coordinator = CoordinatorConnection(cluster, "g", runtime=get_runtime("threads"), backoff_ms=1)
    response = coordinator.ask(
        REQUEST, timeout_s=timeout_s, error_of=lambda r: r.error_code, **options
    )
    return cluster, response


GOOD = HeartbeatResponse()


def test_coordinator_is_looked_up_once():
    cluster, response = ask([7], [GOOD])
    assert response is GOOD
    assert cluster.asked == ["find", (7, "group")]


def test_moved_coordinator_is_looked_up_again():
    moved = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    cluster, response = ask([7, 8], [moved, GOOD])
    assert response is GOOD
    assert cluster.asked == ["find", (7, "group"), "find", (8, "group")]


def test_loading_coordinator_is_retried_without_lookup():
    loading = HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster, response = ask([7], [loading, loading, GOOD])
    assert response is GOOD
    assert cluster.asked == ["find", *[(7, "group")] * 3]


def test_unreachable_coordinator_is_retried_until_found():
    lost = NetworkError("lost")
    cluster, response = ask(
        [NoBrokersAvailable("none"), -1, 7, 7, 7], [BrokerUnavailable("down"), lost, GOOD]
    )
    assert response is GOOD
    assert cluster.refreshed == 2


def test_error_that_is_not_retriable_is_passed_to_caller():
    refused = HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    assert ask([7], [refused])[1] is refused
    with pytest.raises(ProtocolError, match="invalid"):
        ask([7], [ProtocolError("invalid", code=ErrorCode.INVALID_REQUEST)])


def test_last_error_is_raised_after_timeout():
    with pytest.raises(ProtocolError) as caught:
        ask([-1] * 1000, [], timeout_s=0.05)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_stopping_caller_does_not_wait():
    with pytest.raises(ProtocolError):
        ask([-1, 7], [GOOD], stopping=lambda: True)


def transaction_coordinator(cluster, **options):
    return CoordinatorConnection(
        cluster,
        "id",
        runtime=get_runtime("threads"),
        backoff_ms=1,
        key_type=TRANSACTION_COORDINATOR,
        **options,
    )


def test_lookup_of_transactional_id_uses_its_key_type():
    cluster = FakeCluster([7], [GOOD])
    transaction_coordinator(cluster).ask(REQUEST, timeout_s=5, error_of=lambda r: r.error_code)
    assert cluster.keys == [("id", 1)]


def test_broker_without_transaction_coordinators_is_refused():
    cluster = FakeCluster([7], [GOOD])
    cluster.find_version = 0
    with pytest.raises(UnsupportedVersion, match="has no transactions"):
        transaction_coordinator(cluster).ask(REQUEST, timeout_s=5, error_of=lambda r: r.error_code)
    assert cluster.keys == []


def test_caller_extends_retried_error_codes():
    busy = HeartbeatResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    assert ask([7], [busy])[1] is busy
    cluster, response = ask(
        [7], [busy, busy, GOOD], retried={ErrorCode.CONCURRENT_TRANSACTIONS, *RETRIED}
    )
    assert response is GOOD
    # The same broker is asked again.
    assert cluster.asked == ["find", *[(7, "group")] * 3]


def test_attempt_timeout_bounds_wait_for_one_response():
    waited = []

    class Slow(Answer):
        def result(self, timeout_s=None):
            waited.append(timeout_s)
            return super().result(timeout_s)

    cluster = FakeCluster([7], [GOOD])
    cluster.connection = lambda broker_id, lane="", timeout_s=None: type(
        "Connection", (), {"send": lambda self, request: Slow(GOOD)}
    )()
    transaction_coordinator(cluster, attempt_timeout_ms=2000).ask(
        REQUEST, timeout_s=60, error_of=lambda r: r.error_code
    )
    assert waited == [pytest.approx(2.0, abs=0.5)]


def test_hanging_coordinator_is_left_after_it_moved():
    timeouts = []

    class Hanging(Answer):
        def wait(self, timeout_s):
            return False

        def result(self, timeout_s=None):
            timeouts.append(timeout_s)
            raise RequestTimedOut("no answer")

    cluster = FakeCluster([7, 7, 8, 8], [GOOD])
    answered = cluster.connection
    cluster.connection = lambda broker_id, lane="", timeout_s=None: (
        type("Connection", (), {"send": lambda self, request: Hanging(GOOD)})()
        if broker_id == 7
        else answered(broker_id, lane)
    )
    coordinator = CoordinatorConnection(cluster, "g", runtime=get_runtime("threads"), backoff_ms=1)
    assert coordinator.ask(REQUEST, timeout_s=600, error_of=lambda r: r.error_code) is GOOD
    assert timeouts == [0.0], "the first look-up found it unmoved, the second did not"
    assert coordinator.broker_id == 8
