"""The connection of the ZooKeeper client sends requests, and reads responses, in batches."""

import socket
import struct

import gevent
import kazoo.exceptions as kz
import pytest
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler

from zkbroker.zookeeper.connector import READ_AT_ONCE, SENT_AT_ONCE, AnswerBuffer


@pytest.fixture
def sent(monkeypatch):
    """The requests that kazoo would have sent."""
    requests = []

    def send_request(connection, read_timeout, connect_timeout):
        request, result = connection.client._queue.popleft()
        connection._read_sock.recv(1)
        connection.client._pending.append((request, result, 1))
        requests.append(request)

    monkeypatch.setattr(ConnectionHandler, "_send_request", send_request)
    return requests


def ask(client, number):
    result = client.handler.async_result()
    client._state = "CONNECTED"
    client._call(number, result)
    return result


def test_queueing_a_request_never_blocks(client):
    results = [ask(client, number) for number in range(5000)]
    assert len(client._queue) == 5000
    assert not any(result.ready() for result in results), "none was refused"


def test_requests_of_many_greenlets_are_queued(gevent_client):
    client = gevent_client
    tasks = [
        gevent.spawn(lambda: [ask(client, number).ready() for number in range(50)])
        for _ in range(40)
    ]
    gevent.joinall(tasks, timeout=20)
    assert not any(ready for task in tasks for ready in task.value)
    assert len(client._queue) == 2000


def test_queue_is_sent_in_batches(client, sent):
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
    assert sent[-1] == "later", "it is sent at once"


def test_timed_out_request_leaves_queue(client, sent, monkeypatch):
    late, fresh = ask(client, "late"), ask(client, "fresh")
    late.made_at -= 8.1
    client._queue.append(("close", None))
    client._connection._send_request(1.0, 1.0)
    assert sent == ["fresh", "close"]
    assert isinstance(late.exception, kz.OperationTimeoutError)
    assert not fresh.ready()


def reply(xid, size=0):
    """Return a response without an error: length, xid, transaction, error and content."""
    content = struct.pack(">iqi", xid, 7, 0) + bytes(size)
    return struct.pack(">i", len(content)) + content


@pytest.fixture
def connected(client):
    """The connection after its handshake, and the server's socket."""
    here, there = socket.socketpair()
    here.setblocking(False)
    connection = client._connection
    connection._socket = here
    connection._answers = AnswerBuffer()
    with here, there:
        yield connection, there


@pytest.fixture
def answered(monkeypatch):
    """The xids of the responses that reached their requests."""
    found = []
    monkeypatch.setattr(
        ConnectionHandler,
        "_read_response",
        lambda self, header, data, offset: found.append(header.xid),
    )
    return found


def test_queued_requests_are_written_together(connected, monkeypatch):
    connection, there = connected
    client, writes = connection.client, []

    def send(self, read_timeout, connect_timeout):
        request, _ = client._queue.popleft()
        self._write(b"<%d>" % request, connect_timeout)

    written = ConnectionHandler._write
    monkeypatch.setattr(ConnectionHandler, "_send_request", send)
    monkeypatch.setattr(
        ConnectionHandler,
        "_write",
        lambda self, msg, timeout: (writes.append(bytes(msg)), written(self, msg, timeout)),
    )
    for number in range(5):
        ask(client, number)
    connection._send_request(1.0, 1.0)
    assert writes == [b"<0><1><2><3><4>"]
    assert there.recv(100) == writes[0]


def test_failed_batch_leaves_no_bytes_to_write(connected, monkeypatch):
    connection, there = connected

    def send(self, read_timeout, connect_timeout):
        self._write(b"half", connect_timeout)
        raise ConnectionDropped("closed")

    monkeypatch.setattr(ConnectionHandler, "_send_request", send)
    ask(connection.client, 1)
    with pytest.raises(ConnectionDropped):
        connection._send_request(1.0, 1.0)
    connection._write(b"later", 1.0)
    assert there.recv(100) == b"later"


def test_received_responses_are_read_and_partial_one_waits(connected, answered):
    connection, there = connected
    last = reply(50, 10)
    there.sendall(b"".join(reply(xid, xid) for xid in range(1, 50)) + last[:-3])
    connection._read_socket(1.0)
    assert answered == list(range(1, 50))
    assert connection.handler.select([connection._socket], [], [], 0.01)[0] == []
    there.sendall(last[-3:])
    connection._read_socket(1.0)
    assert answered[-1] == 50
    assert not len(connection._answers)


def test_response_larger_than_one_read_is_completed(connected, answered):
    connection, there = connected
    task = connection.client.handler.spawn(there.sendall, reply(1, 3 * READ_AT_ONCE) + reply(2))
    connection._read_socket(5.0)
    while answered != [1, 2]:
        connection._read_socket(5.0)
    task.join()


def test_closed_or_silent_connection_raises(connected):
    connection, there = connected
    there.sendall(reply(1)[:6])
    with pytest.raises(connection.handler.timeout_exception):
        connection._read_socket(0.01)
    there.close()
    with pytest.raises(ConnectionDropped):
        connection._read_socket(5.0)
