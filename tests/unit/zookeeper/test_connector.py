"""The connection of the ZooKeeper client: requests are sent, and answers read, together."""

import socket
import struct

import gevent
import kazoo.exceptions as kz
import pytest
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.client import new_client
from zkbroker.zookeeper.connector import READ_AT_ONCE, SENT_AT_ONCE, AnswerBuffer


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
        ConnectionHandler,
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


def reply(xid, size=0):
    """An answer without an error: its length, and then xid, transaction, error and content."""
    content = struct.pack(">iqi", xid, 7, 0) + bytes(size)
    return struct.pack(">i", len(content)) + content


@pytest.fixture
def connected(client):
    """The connection, behind its handshake, and the server's end of it."""
    here, there = socket.socketpair()
    here.setblocking(False)
    connection = client._connection
    connection._socket = here
    connection._answers = AnswerBuffer()
    with here, there:
        yield connection, there


def taken(connection, monkeypatch):
    """Note the answers that reach their requests, by their xids."""
    found = []
    monkeypatch.setattr(
        ConnectionHandler,
        "_read_response",
        lambda self, header, data, offset: found.append(header.xid),
    )
    return found


def test_requests_that_wait_together_are_written_together(connected, monkeypatch):
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


def test_an_error_within_many_requests_leaves_nothing_to_be_written_later(connected, monkeypatch):
    connection, there = connected

    def send(self, read_timeout, connect_timeout):
        self._write(b"half", connect_timeout)
        raise ConnectionDropped("played")

    monkeypatch.setattr(ConnectionHandler, "_send_request", send)
    ask(connection.client, 1)
    with pytest.raises(ConnectionDropped):
        connection._send_request(1.0, 1.0)
    connection._write(b"later", 1.0)
    assert there.recv(100) == b"later"


def test_all_answers_that_came_are_read_and_a_part_of_one_waits(connected, monkeypatch):
    connection, there = connected
    found = taken(connection, monkeypatch)
    last = reply(50, 10)
    there.sendall(b"".join(reply(xid, xid) for xid in range(1, 50)) + last[:-3])
    connection._read_socket(1.0)
    assert found == list(range(1, 50))
    assert connection.handler.select([connection._socket], [], [], 0.01)[0] == []
    there.sendall(last[-3:])
    connection._read_socket(1.0)
    assert found[-1] == 50
    assert not len(connection._answers)


def test_an_answer_larger_than_one_read_is_read_whole(connected, monkeypatch):
    connection, there = connected
    found = taken(connection, monkeypatch)
    task = connection.client.handler.spawn(there.sendall, reply(1, 3 * READ_AT_ONCE) + reply(2))
    connection._read_socket(5.0)
    while found != [1, 2]:
        connection._read_socket(5.0)
    task.join()


def test_a_connection_that_ends_or_stays_silent_is_an_error(connected):
    connection, there = connected
    there.sendall(reply(1)[:6])
    with pytest.raises(connection.handler.timeout_exception):
        connection._read_socket(0.01)
    there.close()
    with pytest.raises(ConnectionDropped):
        connection._read_socket(5.0)
