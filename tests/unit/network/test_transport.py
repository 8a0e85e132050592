import socket
import tempfile

import gevent
import pytest

from tests.support.frame_client import ask, connect, frame
from tests.support.memory_transport import memory_pair
from zkbroker.errors import NetworkError
from zkbroker.fileslice import FileSlice
from zkbroker.network.client.channel import Channel
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server
from zkbroker.network.server.stream import HubStream
from zkbroker.network.transport import SocketTransport
from zkbroker.runtime import get_runtime


def ends(kind):
    if kind == "memory":
        return memory_pair(get_runtime("threads"))
    one, other = socket.socketpair()
    return SocketTransport(one), SocketTransport(other)


def received(transport, count):
    data = bytearray(count)
    filled = 0
    while filled < count and (got := transport.receive_into(memoryview(data)[filled:])):
        filled += got
    return bytes(data[:filled])


@pytest.mark.parametrize("kind", ["memory", "socket"])
def test_parts_and_file_slices_arrive_in_order(kind):
    one, other = ends(kind)
    with tempfile.TemporaryFile() as file:
        file.write(b"0123456789")
        file.flush()
        part = FileSlice(file.fileno(), 2, 5, lambda: None)
        one.send([b"a", memoryview(b"b" * 70_000), bytearray(b"c"), part])
    assert received(other, 70_007) == b"a" + b"b" * 70_000 + b"c" + b"23456"
    other.send([b"back"])
    assert received(one, 4) == b"back"


@pytest.mark.parametrize("kind", ["memory", "socket"])
def test_shut_down_transport_ends_the_stream(kind):
    one, other = ends(kind)
    one.send([b"last"])
    one.shut_down(socket.SHUT_WR)
    assert received(other, 100) == b"last"
    other.shut_down(socket.SHUT_RDWR)
    other.shut_down(socket.SHUT_RDWR)
    assert received(other, 1) == b""
    with pytest.raises(OSError):
        one.send([b"x"])
    one.close()
    other.close()


class SentRequest:
    """A request of a channel."""

    expects_answer = True

    def __init__(self, correlation_id):
        self.correlation_id = correlation_id
        self.outcome = get_runtime("threads").queue(1)

    def finish(self, frame, error):
        self.outcome.put((None if frame is None else bytes(frame), error))


def test_channel_works_over_a_memory_transport():
    runtime = get_runtime("threads")
    mine, theirs = memory_pair(runtime)
    channel = Channel(runtime, mine, "memory", 1000)
    entry, lost = SentRequest(7), SentRequest(8)
    channel.send([b"request"], entry)
    assert received(theirs, 7) == b"request"
    theirs.send([(8).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"done"])
    assert entry.outcome.get(10) == ((7).to_bytes(4, "big") + b"done", None)
    channel.send([b"request"], lost)
    theirs.shut_down(socket.SHUT_WR)
    frame, error = lost.outcome.get(10)
    assert frame is None
    assert isinstance(error, NetworkError)


def test_server_uses_the_given_transport():
    class UpperCase(HubStream):
        """Changes the bytes that are sent, as encryption would."""

        def send(self, parts):
            super().send([bytes(part).upper() for part in parts])

    def transport(listener, connection):
        assert listener == "LOUD"
        return UpperCase(connection, gevent.get_hub())

    def handle(session, request):
        return [frame(bytes(request))]

    server = Server([Listener("LOUD", "127.0.0.1", 0)], Limits(), transport=transport)
    server.listen()
    server.start(handle)
    try:
        with connect(server.addresses["LOUD"]) as connection:
            assert ask(connection, b"quiet") == b"QUIET"
    finally:
        server.stop(1)
