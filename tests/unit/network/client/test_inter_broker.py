"""Connections between brokers: one request at a time."""

import time

import pytest

from tests.support.played_broker import encoded
from zkbroker.errors import NetworkError, RequestTimedOut
from zkbroker.network.client import inter_broker
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.protocol import RequestHeader
from zkbroker.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

SILENT = "silent"


def echoing(header, request):
    assert isinstance(request, FindCoordinatorRequest)
    if request.key == SILENT:
        return b""
    return encoded(header, FindCoordinatorResponse(host=request.key))


def connect(runtime, broker, **settings):
    given = {"client_id": "it", "timeout_ms": 10_000} | settings
    return InterBrokerConnection(runtime, "127.0.0.1", broker.port, **given)


@pytest.fixture
def echo(runtime, play):
    """A broker that echoes keys, and a connection to it."""
    broker = play(echoing)
    connection = connect(runtime, broker)
    yield broker, connection
    connection.close()


def ask(connection, key="a"):
    return connection.send(FindCoordinatorRequest(key), 0).host


def test_each_request_gets_its_response(echo):
    broker, connection = echo
    assert [ask(connection, each) for each in ("a", "b", "x" * 20_000)] == ["a", "b", "x" * 20_000]
    assert {each.client_id for each in broker.seen} == {"it"}


def test_concurrent_tasks_share_the_connection(runtime, echo):
    broker, connection = echo
    got = []
    tasks = [
        runtime.spawn(lambda key=key: got.append(ask(connection, key)), name=key)
        for key in "abcdefgh"
    ]
    assert all(task.join(10) for task in tasks)
    assert sorted(got) == list("abcdefgh")
    assert broker.connections == 1


def test_request_after_timeout_reconnects(echo):
    broker, connection = echo
    assert ask(connection) == "a"
    connection._timeout_s, patient_s = 0.2, connection._timeout_s
    with pytest.raises(RequestTimedOut, match=r"within 0\.2 s to FIND_COORDINATOR v0"):
        ask(connection, SILENT)
    connection._timeout_s = patient_s
    assert ask(connection) == "a"  # over another connection
    assert broker.connections == 2


def test_timeout_covers_the_whole_response(runtime, play):
    def dripping(header, request):
        connection = broker.open[-1]
        try:
            for byte in encoded(header, FindCoordinatorResponse(host="x" * 100)):
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            pass
        return

    broker = play(dripping)
    connection = connect(runtime, broker, timeout_ms=200)
    with pytest.raises(RequestTimedOut):
        ask(connection)
    connection.close()


@pytest.mark.parametrize("wrong", [99, -1])
def test_response_with_other_correlation_id_closes_connection(runtime, play, wrong):
    def answer(header, request):
        other = RequestHeader(header.api_key, header.api_version, wrong, None)
        return encoded(other, FindCoordinatorResponse())

    broker = play(answer)
    connection = connect(runtime, broker)
    for _ in range(2):
        with pytest.raises(NetworkError, match="belongs to another request"):
            ask(connection)
    assert broker.connections == 2


def test_oversized_response_closes_the_connection(runtime, play):
    connection = connect(runtime, play(echoing), max_response_bytes=100)
    with pytest.raises(NetworkError, match="not within 0 to 100"):
        ask(connection, "x" * 200)
    assert ask(connection) == "a"


def test_connection_closed_by_the_broker_is_an_error(runtime, play):
    connection = connect(runtime, play(lambda header, request: None))
    with pytest.raises(NetworkError, match="lost: closed by the broker"):
        ask(connection)


def test_connection_closed_while_idle_is_reopened(runtime, echo, monkeypatch):
    broker, connection = echo
    assert ask(connection) == "a"
    broker.drop_connections()
    monkeypatch.setattr(inter_broker, "_REST_S", 0.0)
    while not connection._open.transport.readable():
        runtime.sleep(0.001)
    assert ask(connection) == "a"
    assert ask(connection) == "a"
    assert broker.connections == 2


def test_close_fails_the_waiting_request(runtime, echo):
    broker, connection = echo
    failed = []

    def wait():
        try:
            ask(connection, SILENT)
        except NetworkError as error:
            failed.append(error)

    task = runtime.spawn(wait, name="waits")
    while not broker.seen:
        runtime.sleep(0.001)
    connection.close()
    connection.close()
    assert task.join(5)
    assert len(failed) == 1


def test_connection_opened_during_close_is_discarded(echo, monkeypatch):
    _, connection = echo
    open_transport = inter_broker.open_transport

    def slow(*args, **settings):
        opened = open_transport(*args, **settings)
        connection.close()
        return opened

    monkeypatch.setattr(inter_broker, "open_transport", slow)
    with pytest.raises(NetworkError, match="was closed"):
        ask(connection)
    monkeypatch.setattr(inter_broker, "open_transport", open_transport)
    assert ask(connection) == "a"
