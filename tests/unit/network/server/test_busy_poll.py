"""Polling for the next request before the hub sleeps."""

import socket
import threading
import time
from types import SimpleNamespace

import gevent
import pytest

from zkbroker.network.server import busy_poll as module
from zkbroker.network.server.busy_poll import BusyPoll, HubEvents
from zkbroker.network.server.stream import HubStream

LONG_S = 30.0
"""Longer than any wait of a test: polling always ends for another reason."""


class Polled:
    """A connection that is polled, and its peer."""

    def __init__(self, limit_s=LONG_S):
        self.ours, self.peer = socket.socketpair()
        hub = gevent.get_hub()
        self.stream = HubStream(self.ours, hub)
        self.poll = BusyPoll(self.ours.fileno(), HubEvents(hub), limit_s)
        self.stream.busy_poll = self.poll

    def ready(self):
        return self.poll.ready(time.monotonic())

    @property
    def events(self):
        return self.poll._events

    def close(self):
        self.stream.close()
        self.peer.close()


@pytest.fixture
def poll():
    """Make a `Polled`; it is closed after the test."""
    made = []

    def make(*limit_s):
        made.append(Polled(*limit_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def polled(poll):
    return poll()


def send_later(peer):
    threading.Timer(0.01, peer.send, (b"next",)).start()


def test_next_request_is_received_without_the_hub(polled, monkeypatch):
    buffer = memoryview(bytearray(64))
    polled.peer.send(b"first")
    assert polled.stream.receive_into(buffer) == 5
    monkeypatch.setattr(HubStream, "_wait", None)
    turn_ends = polled.stream.run_until
    for _ in range(3):
        send_later(polled.peer)
        assert polled.stream.receive_into(buffer) == 4
        assert polled.stream.active_at <= time.monotonic()
    # The connection has had its turn all the while, and lets others run when that is over.
    assert polled.stream.run_until == turn_ends


def test_close_of_the_peer_ends_polling(polled):
    threading.Timer(0.01, polled.peer.close).start()
    assert polled.ready()
    assert polled.stream.receive_into(memoryview(bytearray(64))) == 0


def test_due_callback_ends_polling(polled):
    polled.peer.send(b"next")
    gevent.spawn(lambda: None)
    assert not polled.ready()
    gevent.sleep(0)
    # The hub has other work and will not sleep: for a moment nothing is polled.
    assert polled.events.busy_until <= time.monotonic() + module._FIRST_REST_S
    polled.events.busy_until = time.monotonic() + LONG_S
    assert not polled.ready()
    polled.events.busy_until = 0.0
    assert polled.ready()


def test_data_on_another_connection_ends_polling(polled, poll):
    other = poll()
    task = gevent.spawn(other.stream.receive_into, memoryview(bytearray(64)))
    other.stream.busy_poll = None
    gevent.sleep(0.001)
    send_later(other.peer)
    assert not polled.ready()
    polled.peer.send(b"next")
    assert not polled.ready()
    assert task.get(timeout=LONG_S) == 4
    polled.events.busy_until = 0.0
    assert polled.ready()


def test_callback_from_a_thread_ends_polling(polled):
    called = []
    loop = gevent.get_hub().loop
    threading.Timer(0.01, loop.run_callback_threadsafe, (called.append, 1)).start()
    assert not polled.ready()
    gevent.sleep(0.001)
    assert called == [1]


def test_rest_grows_after_each_vain_poll(poll, monkeypatch):
    made = poll(0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0))
    rests = []
    for _ in range(12):
        assert not made.poll.ready(99.0)
        rests.append(made.poll.rests_until - 100.0)
    monkeypatch.undo()
    assert rests[:2] == pytest.approx([0.001, 0.002])
    assert rests[-2:] == [1.0, 1.0]
    # While it rests it is not polled.
    made.poll.rests_until = time.monotonic() + LONG_S
    waited = []
    wait = HubStream._wait
    monkeypatch.setattr(
        HubStream, "_wait", lambda stream, watcher: waited.append(1) or wait(stream, watcher)
    )
    monkeypatch.setattr(BusyPoll, "ready", None)
    made.stream._drained = True
    send_later(made.peer)
    assert made.stream.receive_into(memoryview(bytearray(64))) == 4
    assert waited
    monkeypatch.undo()
    made.peer.send(b"next")
    assert made.ready()
    made.ours.recv(64)
    assert not made.ready()
    assert made.poll.rests_until - time.monotonic() <= module._FIRST_REST_S


def test_unknown_loop_backend_is_not_polled():
    class Loop:
        backend = "select"

    class Hub:
        loop = Loop()

    assert HubEvents.known(gevent.get_hub())
    assert not HubEvents.known(Hub())
