"""Requests to a coordinator: look-ups, retries and moves."""

from types import SimpleNamespace

import pytest

from tests.support.played_cluster import PlayedCluster
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
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from zkbroker.protocol.messages.membership import TRANSACTION_COORDINATOR
from zkbroker.runtime import get_runtime

REQUEST = HeartbeatRequest("g", 1, "m")


class ScriptedCluster(PlayedCluster):
    """Takes each look-up and each response from a list.

    Args:
        lookups: the id of the coordinator, -1 for an error of the broker, or an exception.
        responses: to the other requests, or exceptions.
    """

    def __init__(self, lookups, responses):
        super().__init__()
        self.lookups, self.responses = list(lookups), list(responses)
        self.steps = []
        self.keys = []
        self.refreshed = 0

    def answer(self, connection, request):
        if not isinstance(request, FindCoordinatorRequest):
            return self.responses.pop(0)
        found = self.lookups.pop(0)
        if isinstance(found, Exception):
            return found
        self.steps.append("lookup")
        self.keys.append((request.key, request.key_type))
        if found < 0:
            return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(node_id=found)

    def connection(self, broker_id, lane="", *, timeout_s=None):
        self.steps.append((broker_id, lane))
        if isinstance(self.responses[0], BrokerUnavailable):
            raise self.responses.pop(0)
        return super().connection(broker_id)

    def refresh(self, topics=None, *, timeout_s=None):
        self.refreshed += 1
        raise NoBrokersAvailable("none")


def ask(lookups, responses, timeout_s=5.0, **options):
    cluster = ScriptedCluster(lookups, responses)
    coordinator = CoordinatorConnection(cluster, "g", runtime=get_runtime("threads"), backoff_ms=1)
    response = coordinator.ask(
        REQUEST, timeout_s=timeout_s, error_of=lambda r: r.error_code, **options
    )
    return cluster, response


GOOD = HeartbeatResponse()


def test_coordinator_is_looked_up_once():
    cluster, response = ask([7], [GOOD])
    assert response is GOOD
    assert cluster.steps == ["lookup", (7, "group")]


def test_moved_coordinator_is_looked_up_again():
    moved = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    cluster, response = ask([7, 8], [moved, GOOD])
    assert response is GOOD
    assert cluster.steps == ["lookup", (7, "group"), "lookup", (8, "group")]


def test_loading_coordinator_is_retried_without_lookup():
    loading = HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster, response = ask([7], [loading, loading, GOOD])
    assert response is GOOD
    assert cluster.steps == ["lookup", *[(7, "group")] * 3]


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
    cluster = ScriptedCluster([7], [GOOD])
    transaction_coordinator(cluster).ask(REQUEST, timeout_s=5, error_of=lambda r: r.error_code)
    assert cluster.keys == [("id", 1)]


def test_broker_without_transaction_coordinators_is_refused():
    cluster = ScriptedCluster([7], [GOOD])
    cluster.version = 0
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
    assert cluster.steps == ["lookup", *[(7, "group")] * 3]


class HangingConnection:
    """Its responses never come; `timeouts` has the time-out of each `result`."""

    def __init__(self):
        self.timeouts = []

    def send(self, request):
        return self

    def wait(self, timeout_s):
        return False

    def result(self, timeout_s):
        self.timeouts.append(timeout_s)
        raise RequestTimedOut("no answer")


def test_attempt_timeout_bounds_wait_for_one_response():
    cluster, hanging = ScriptedCluster([7], []), HangingConnection()
    cluster.connection = lambda broker_id, lane, timeout_s: hanging
    coordinator = transaction_coordinator(cluster, attempt_timeout_ms=2000)
    with pytest.raises(RequestTimedOut):
        coordinator.ask(
            REQUEST, timeout_s=60, error_of=lambda r: r.error_code, stopping=lambda: True
        )
    assert hanging.timeouts == [pytest.approx(2.0, abs=0.5)]


def test_each_step_of_a_look_up_has_the_time_that_is_left(monkeypatch):
    now_s, given = 100.0, []

    class SlowCluster(PlayedCluster):
        def ask_any(self, question, *, timeout_s=None):
            nonlocal now_s
            given.append(timeout_s)
            now_s += 4.0
            return FindCoordinatorResponse(node_id=7)

        def connection(self, broker_id, lane="", *, timeout_s=None):
            nonlocal now_s
            given.append(timeout_s)
            now_s += timeout_s
            raise BrokerUnavailable("down")

        def refresh(self, topics=None, *, timeout_s=None):
            given.append(timeout_s)

    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr("zkbroker.client.coordinator.time", clock)
    coordinator = CoordinatorConnection(
        SlowCluster(), "g", runtime=get_runtime("threads"), backoff_ms=1
    )
    with pytest.raises(NetworkError):
        coordinator.ask(REQUEST, timeout_s=6.0, error_of=lambda r: r.error_code)
    assert given == [6.0, 2.0, 0.0]


def test_hanging_coordinator_is_left_after_it_moved():
    cluster, hanging = ScriptedCluster([7, 7, 8, 8], [GOOD]), HangingConnection()
    connect = cluster.connection
    cluster.connection = lambda broker_id, lane, timeout_s: (
        hanging if broker_id == 7 else connect(broker_id, lane)
    )
    coordinator = CoordinatorConnection(cluster, "g", runtime=get_runtime("threads"), backoff_ms=1)
    assert coordinator.ask(REQUEST, timeout_s=600, error_of=lambda r: r.error_code) is GOOD
    assert hanging.timeouts == [0.0], "the first look-up found it unmoved, the second did not"
    assert coordinator.broker_id == 8
