"""The socket of a channel is closed once no task can enter it any more."""

from types import SimpleNamespace

import pytest

from zkbroker.errors import NetworkError
from zkbroker.network.client.channel import Channel


class Transport:
    """A connection whose peer closes it when the test says so, and whose writer is then held."""

    def __init__(self, runtime):
        self.peer_closed, self.writing, self.go_on = (runtime.event() for _ in range(3))
        self.shut, self.closed = runtime.event(), runtime.event()

    def receive_into(self, view):
        self.peer_closed.wait(10)
        return 0

    def send(self, parts):
        self.writing.set()
        self.go_on.wait(10)
        assert not self.closed.is_set(), "closed while a task writes"

    def shut_down(self, how):
        self.shut.set()

    def close(self):
        self.closed.set()


def request(finished):
    return SimpleNamespace(
        correlation_id=1,
        expects_answer=True,
        finish=lambda frame, error: finished.append(str(error)),
    )


def test_socket_is_closed_after_the_writer_is_done(runtime):
    transport, finished = Transport(runtime), []
    channel = Channel(runtime, transport, "b:1", 1000)
    writer = runtime.spawn(lambda: channel.send([b"x"], request(finished)), name="writer")
    assert transport.writing.wait(10)
    transport.peer_closed.set()
    assert transport.shut.wait(10)
    assert not transport.closed.wait(0.05)
    transport.go_on.set()
    assert writer.join(10)
    assert transport.closed.wait(10)
    assert finished == ["connection to b:1 lost: closed by the broker"]


def test_socket_without_a_writer_is_closed_with_the_reading(runtime):
    transport = Transport(runtime)
    channel = Channel(runtime, transport, "b:1", 1000)
    transport.peer_closed.set()
    assert transport.closed.wait(10)
    assert "closed by the broker" in str(channel.error)


def test_writer_that_is_interrupted_leaves_the_socket_to_be_closed(runtime):
    class Interrupted(Transport):
        def send(self, parts):
            raise KeyboardInterrupt

    transport, finished = Interrupted(runtime), []
    channel = Channel(runtime, transport, "b:1", 1000)
    with pytest.raises(KeyboardInterrupt):
        channel.send([b"x"], request(finished))
    transport.peer_closed.set()
    assert transport.closed.wait(10)
    with pytest.raises(NetworkError, match="failed while sending"):
        channel.send([b"y"], request(finished))


def test_socket_is_shut_down_before_the_reader_closes_it(runtime):
    class Observed(Transport):
        def shut_down(self, how):
            self.peer_closed.set()
            self.closed_before = self.closed.wait(0.2)

    transport = Observed(runtime)
    channel = Channel(runtime, transport, "b:1", 1000)
    channel.close(NetworkError("no longer needed"))
    assert transport.closed.wait(10)
    assert not transport.closed_before
