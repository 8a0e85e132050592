"""What is changed of kazoo, and what it must have for that."""

import collections
import inspect
import logging
import socket

import gevent
import kazoo.exceptions as kz
import pytest
from kazoo.protocol.serialization import Auth, SetData

from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import client as module
from zkbroker.zookeeper.client import (
    READY_IN_A_ROW,
    SENT_AT_ONCE,
    Connector,
    new_client,
    ready_now,
    require_kazoo,
)


@pytest.fixture(params=["threads", "gevent"])
def client(request):
    made = new_client("127.0.0.1:1", 6.0, get_runtime(request.param), lambda granted_s: None, 8.0)
    # As `start` does, without the task that connects.
    connection = made._connection
    connection._read_sock, connection._write_sock = made.handler.create_socket_pair()
    connection.connection_closed.clear()
    yield made
    connection.close()


class Sent(list):
    """Plays kazoo's own sending of one request."""

    def __call__(self, connection, read_timeout, connect_timeout):
        request, result = connection.client._queue.popleft()
        connection._read_sock.recv(1)
        connection.client._pending.append((request, result, 1))
        self.append(request)


@pytest.fixture
def sent(monkeypatch):
    played = Sent()
    monkeypatch.setattr(
        module.ConnectionHandler,
        "_send_request",
        lambda connection, read_timeout, connect_timeout: played(
            connection, read_timeout, connect_timeout
        ),
    )
    return played


def ask(client, number):
    result = client.handler.async_result()
    client._state = "CONNECTED"
    client._call(number, result)
    return result


def test_asking_never_waits_however_many_requests_wait(client):
    results = [ask(client, number) for number in range(5000)]
    assert client.waiting == 5000
    assert not any(result.ready() for result in results), "none was refused"


def test_requests_of_many_greenlets_are_all_queued():
    client = new_client("127.0.0.1:1", 6.0, get_runtime("gevent"), lambda granted_s: None, 8.0)
    connection = client._connection
    connection._read_sock, connection._write_sock = client.handler.create_socket_pair()
    tasks = [
        gevent.spawn(lambda: [ask(client, number).ready() for number in range(50)])
        for _ in range(40)
    ]
    gevent.joinall(tasks, timeout=20)
    assert not any(ready for task in tasks for ready in task.value)
    assert client.waiting == 2000


def test_one_wake_up_sends_the_whole_queue_and_none_is_left(client, sent):
    for number in range(5000):
        ask(client, number)
    rounds = 0
    while client.handler.select([client._connection._read_sock], [], [], 0)[0]:
        client._connection._send_request(1.0, 1.0)
        rounds += 1
    assert sent == list(range(5000))
    assert rounds == 5000 // SENT_AT_ONCE + 1
    client._connection._send_request(1.0, 1.0)
    ask(client, "later")
    assert client.handler.select([client._connection._read_sock], [], [], 0)[0]
    client._connection._send_request(1.0, 1.0)
    assert sent[-1] == "later", "it goes out at once and not behind others"


def test_a_request_that_timed_out_leaves_the_queue(client, sent, monkeypatch):
    late, fresh = ask(client, "late"), ask(client, "fresh")
    late.made_at -= 8.1
    client._queue.append(("close", None))
    client._connection._send_request(1.0, 1.0)
    assert sent == ["fresh", "close"]
    assert isinstance(late.exception, kz.OperationTimeoutError)
    assert not fresh.ready()


def test_kazoo_as_it_is_installed_has_what_is_built_upon():
    require_kazoo()
    source = inspect.getsource(module.ConnectionHandler)
    for call in ("self._send_request(", "self._connect(", "self._expand_client_hosts("):
        assert call in source, f"kazoo does not call {call[:-1]} any more: overriding it is no use"
    sending = inspect.getsource(module.ConnectionHandler._send_request)
    assert "client._queue" in sending
    assert "popleft" in sending
    starting = inspect.getsource(module.ConnectionHandler.start)
    assert "create_socket_pair" in starting
    assert "_write_sock" in inspect.getsource(module.KazooClient._call)
    assert "async_result" in inspect.getsource(module.KazooClient.get_async)
    assert Connector._send_request is not module.ConnectionHandler._send_request


@pytest.mark.parametrize("name", ["_send_request", "_connect", "_expand_client_hosts"])
def test_a_kazoo_that_lacks_a_method_is_refused(name, monkeypatch):
    monkeypatch.delattr(module.ConnectionHandler, name)
    with pytest.raises(RegistryError, match=rf"no ConnectionHandler\.{name}\(.*pip install"):
        new_client("127.0.0.1:1", 6.0, get_runtime("threads"), print, 8.0)


def test_a_kazoo_with_other_parameters_is_refused(monkeypatch):
    monkeypatch.setattr(module.ConnectionHandler, "_connect", lambda self, address: None)
    with pytest.raises(RegistryError, match="_connect"):
        require_kazoo()


@pytest.mark.parametrize("which", ["client", "connection"])
def test_a_kazoo_without_a_field_is_refused(which, monkeypatch):
    fields = collections.ChainMap({which: ("_gone",)}, dict(module.RELIED_ON_FIELDS))
    monkeypatch.setattr(module, "RELIED_ON_FIELDS", tuple(fields.items()))
    with pytest.raises(RegistryError, match="_gone"):
        new_client("127.0.0.1:1", 6.0, get_runtime("threads"), print, 8.0)


def test_kazoo_tells_each_attempt_to_connect_to_debug_only(caplog):
    caplog.set_level(logging.DEBUG)
    quiet = module._QuietLogger(logging.getLogger("played"), {})
    quiet.warning("Connection dropped: refused")
    quiet.warning("Cannot resolve nowhere")
    quiet.error("broken")
    assert [record.levelname for record in caplog.records] == ["DEBUG", "WARNING", "ERROR"]


def test_sockets_that_are_ready_are_not_waited_for(client):
    one, other = socket.socketpair()
    with one, other:
        assert client.handler.select([], [one], [], 5) == ([], [one], [])
        assert ready_now([one], []) is None
        assert client.handler.select([one], [], [], 0.01)[0] == []
        other.send(b"x")
        assert client.handler.select([one, other], [], [], 5)[0] == [one]
        # What is read and written, or closed, is left to kazoo.
        assert ready_now([one], [one]) is None
        other.close()
        assert ready_now([other], []) is None


def test_a_client_that_never_waits_lets_others_run():
    made = new_client("127.0.0.1:1", 6.0, get_runtime("gevent"), lambda granted_s: None, 8.0)
    one, other = socket.socketpair()
    turns = []
    other_task = gevent.spawn(lambda: turns.append("another"))
    with one, other:
        for _ in range(READY_IN_A_ROW):
            made.handler.select([], [one], [], 5)
    assert turns == ["another"]
    other_task.join()


def test_what_requests_and_answers_hold_is_not_logged(caplog):
    quiet = module._QuietLogger(logging.getLogger("played"), {})
    with caplog.at_level(logging.DEBUG):
        quiet.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", "kafka:hush"))
        quiet.debug("Sending request(xid=%s): %s", 2, SetData("/config/users/a", b"hush", 1))
        quiet.debug("Received response(xid=%s): %r", 2, (b"hush", None))
        quiet.debug("    session_passwd: %s", b"hush")
        quiet.debug("Connecting to %s:%s", "h", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "Sending request(xid=1): Auth",
        "Sending request(xid=2): SetData /config/users/a",
        "Received response(xid=2): 'tuple'",
        "    session_passwd: 4 bytes",
        "Connecting to h:1",
    ]
