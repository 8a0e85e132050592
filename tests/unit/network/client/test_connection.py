"""Connections of clients to brokers of each generation, which `PlayedBroker` stands for."""

import threading
import time

import pytest

from tests.support.played_broker import encoded
from zkbroker.errors import AuthenticationFailed, NetworkError, RequestTimedOut, UnsupportedVersion
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import SUPPORTED_VERSIONS, ApiKey
from zkbroker.protocol.messages import (
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    served_versions,
)

LAST_FETCH = SUPPORTED_VERSIONS[ApiKey.FETCH][1]
LAST_PRODUCE = SUPPORTED_VERSIONS[ApiKey.PRODUCE][1]


def modern(header, request):
    if header.api_key == ApiKey.API_VERSIONS:
        return encoded(header, ApiVersionsResponse(versions=served_versions()))
    if header.api_key == ApiKey.FIND_COORDINATOR:
        assert isinstance(request, FindCoordinatorRequest)
        return encoded(header, FindCoordinatorResponse(host=request.key))
    if header.api_key == ApiKey.METADATA:
        return encoded(header, MetadataResponse(cluster_id="it"))
    return b""


def connect(runtime, broker, **settings):
    return BrokerConnection(runtime, "127.0.0.1", broker.port, **settings)


def test_versions_are_negotiated(runtime, play):
    with connect(runtime, play(modern)) as connection:
        assert connection.guess is None
        assert connection.best_version(ApiKey.FETCH) == LAST_FETCH
        assert connection.best_version(ApiKey.FETCH, at_most=3) == 3
        assert connection.request(MetadataRequest(topics=None)).cluster_id == "it"


def test_minimum_version_of_a_newer_broker_is_respected(runtime, play):
    def future(header, request):
        spans = served_versions()
        for span in spans:
            if span.key == ApiKey.FETCH:
                span.min_version, span.max_version = LAST_FETCH + 1, 99
        return encoded(header, ApiVersionsResponse(versions=spans))

    with (
        connect(runtime, play(future)) as connection,
        pytest.raises(UnsupportedVersion, match=rf"FETCH versions \({LAST_FETCH + 1}, 99\)"),
    ):
        connection.best_version(ApiKey.FETCH)


@pytest.mark.parametrize("generation", ["0.8.2", "0.9"])
def test_broker_that_closes_on_api_versions_is_recognised(runtime, play, generation):
    def old(header, request):
        if header.api_key == ApiKey.LIST_GROUPS and generation == "0.9":
            return encoded(header, ListGroupsResponse())
        if header.api_key == ApiKey.LIST_OFFSETS:
            return encoded(header, ListOffsetsResponse())
        return encoded(header, MetadataResponse()) if header.api_key == ApiKey.METADATA else None

    with connect(runtime, play(old)) as connection:
        assert connection.guess == generation
        assert connection.best_version(ApiKey.PRODUCE) == (1 if generation == "0.9" else 0)
        assert connection.request(MetadataRequest()).brokers == []


def test_failing_broker_is_not_taken_for_an_old_one(runtime, play):
    with pytest.raises(NetworkError):
        connect(runtime, play(lambda header, request: None))


def test_pipelined_responses_match_their_requests(runtime, play):
    with connect(runtime, play(modern)) as connection:
        pendings = [connection.send(FindCoordinatorRequest(key=f"g{n}")) for n in range(200)]
        assert [p.result(10).host for p in reversed(pendings)] == [
            f"g{n}" for n in reversed(range(200))
        ]
        assert connection.in_flight == 0


def test_many_tasks_share_one_connection(runtime, play):
    with connect(runtime, play(modern), max_in_flight=3) as connection:
        wrong = []

        def ask(name):
            for number in range(30):
                key = (f"{name}-{number}-" + "x" * (number * 997))[:30_000]
                if connection.request(FindCoordinatorRequest(key=key), timeout_s=20).host != key:
                    wrong.append(key)

        tasks = [runtime.spawn(ask, f"t{n}", name=f"t{n}") for n in range(8)]
        assert all(task.join(60) for task in tasks)
        assert wrong == []


def test_callback_added_before_or_after_the_response_is_called_once(runtime, play):
    with connect(runtime, play(modern)) as connection:
        hosts = []
        called = runtime.event()

        def note(pending):
            hosts.append(pending.result(0).host)
            called.set()

        pending = connection.send(FindCoordinatorRequest(key="g"))
        pending.add_done_callback(note)
        assert called.wait(10)
        pending.add_done_callback(note)
        assert hosts == ["g", "g"]


def test_produce_without_acks_is_done_when_written(runtime, play):
    with connect(runtime, play(modern)) as connection:
        assert connection.send(ProduceRequest(acks=0)).result(10) is None
        assert connection.request(FindCoordinatorRequest(key="next")).host == "next"


def test_lost_connection_fails_every_open_request(runtime, play):
    broker = play(modern)
    connection = connect(runtime, broker)
    failed = []
    pendings = [connection.send(ProduceRequest()) for _ in range(5)]
    pendings[0].add_done_callback(failed.append)
    broker.drop_connections()
    for pending in pendings:
        with pytest.raises(NetworkError, match=r"127\.0\.0\.1:\d+ lost"):
            pending.result(10)
    assert failed == pendings[:1]
    assert connection.closed
    with pytest.raises(NetworkError):
        connection.send(MetadataRequest())


def test_timeout_closes_the_connection(runtime, play):
    connection = connect(runtime, play(modern))
    other = connection.send(ProduceRequest())
    with pytest.raises(RequestTimedOut, match=rf"within 0\.1 s to PRODUCE v{LAST_PRODUCE}"):
        connection.request(ProduceRequest(), timeout_s=0.1)
    with pytest.raises(NetworkError, match="no answer"):
        other.result(10)


def test_response_without_request_closes_connection(runtime, play):
    def confused(header, request):
        if header.api_key != ApiKey.API_VERSIONS:
            header.correlation_id += 1
        return modern(header, request)

    connection = connect(runtime, play(confused))
    with pytest.raises(NetworkError, match="belongs to no request"):
        connection.request(MetadataRequest())


def test_failing_callback_closes_the_connection(runtime, play):
    asked = threading.Event()

    def after_the_question(header, request):
        if header.api_key == ApiKey.METADATA:
            asked.wait(20)
        return modern(header, request)

    def fail(pending):
        raise LookupError(pending.correlation_id)

    with connect(runtime, play(after_the_question)) as connection:
        connection.send(MetadataRequest(topics=[])).add_done_callback(fail)
        later = connection.send(MetadataRequest(topics=[]))
        asked.set()
        with pytest.raises(NetworkError, match="could not be processed"):
            later.result(20)


def test_oversized_response_closes_the_connection(runtime, play):
    connection = connect(runtime, play(modern), max_response_bytes=1000)
    with pytest.raises(NetworkError, match="not within 0 to 1000"):
        connection.request(FindCoordinatorRequest(key="k" * 2000))


def test_connection_can_be_closed_twice(runtime, play):
    connection = connect(runtime, play(modern))
    connection.close()
    connection.close()
    with pytest.raises(NetworkError, match="was closed"):
        connection.request(MetadataRequest())


def test_throttle_time_extends_the_request_timeout(runtime, play):
    asked = []

    def muting(header, request):
        if header.api_key != ApiKey.METADATA:
            return modern(header, request)
        asked.append(header.correlation_id)
        if len(asked) == 2:
            time.sleep(0.5)
        return encoded(header, MetadataResponse(throttle_time_ms=60_000 if len(asked) == 1 else 0))

    with connect(runtime, play(muting)) as connection:
        request = MetadataRequest(topics=None)
        first, second = connection.send(request), connection.send(request)
        assert first.result().throttle_time_ms == 60_000
        connection.request_timeout_s = 0.1
        assert second.result().throttle_time_ms == 0
        assert first.again().result().throttle_time_ms == 0


def test_throttle_time_does_not_extend_an_explicit_timeout(runtime, play):
    def muting(header, request):
        if header.api_key == ApiKey.LIST_GROUPS:
            return b""
        if header.api_key == ApiKey.METADATA:
            return encoded(header, MetadataResponse(throttle_time_ms=60_000))
        return modern(header, request)

    with connect(runtime, play(muting)) as connection:
        connection.request(MetadataRequest(topics=None))
        with pytest.raises(RequestTimedOut):
            connection.send(ListGroupsRequest()).result(0.05)


def test_plaintext_connection_to_tls_port_error_names_the_setting(runtime, play):
    def refuse(header, request):
        broker.open[-1].sendall(bytes.fromhex("15030300020246"))

    broker = play(refuse)
    with (
        pytest.raises(AuthenticationFailed, match=r"speaks TLS.*set security\.protocol=SSL"),
        connect(runtime, broker) as connection,
    ):
        connection.request(MetadataRequest(topics=None))
