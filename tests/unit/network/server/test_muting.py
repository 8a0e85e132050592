"""A pause ends after its time, or when it is ended; its connection is not silent meanwhile."""

import time

import gevent
import gevent.event

from tests.support.frame_client import connect, frame, receive
from zkbroker.network.server.muting import Mute


class RecordingEvent:
    def __init__(self):
        self.waited = []
        self.ended = 0

    def set(self):
        self.ended += 1

    def wait(self, timeout):
        self.waited.append(timeout)


class CountedClock:
    """The monotonic clock; a test lets time pass without waiting."""

    def __init__(self):
        self.passed_s = 0.0
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return time.monotonic() + self.passed_s


def test_pause_waits_for_the_set_time_once(monkeypatch):
    event = RecordingEvent()
    monkeypatch.setattr(gevent.event, "Event", lambda: event)
    mute = Mute()
    assert not mute.on
    mute.seconds = 1.5
    mute.pause()
    assert (event.waited, mute.seconds, mute.on) == ([1.5], 0.0, False)
    mute.end()
    assert event.ended == 0


def test_pause_is_ended_by_another_task():
    mute = Mute()
    mute.seconds = 3600.0
    task = gevent.spawn(mute.pause)
    gevent.sleep(0)
    assert mute.on
    mute.end()
    task.join()
    assert not mute.on


def test_pause_that_was_ended_before_it_began_does_not_begin():
    mute = Mute()
    mute.seconds = 3600.0
    # The answer of the request that set it is still being sent.
    mute.end()
    assert mute.seconds == 0.0


def test_muted_connection_with_part_of_a_request_is_not_silent(serve, servers):
    def handle(session, request):
        if request == b"above its quota":
            session.mute.seconds = 3600.0
        return [frame(bytes(request))]

    clock = CountedClock()
    connection = connect(serve(handle, clock=clock, max_frame_s=30, rate_window_s=0.1))
    following = frame(b"read when the pause is over")
    connection.sendall(frame(b"above its quota") + following[:7])
    assert receive(connection, 19) == frame(b"above its quota")
    clock.passed_s = 100
    looked = clock.calls + 3  # some looks for slow connections
    with gevent.Timeout(20):
        while clock.calls < looked:
            gevent.sleep(0.01)
    clock.passed_s = 0
    servers[0].unmute()
    connection.sendall(following[7:])
    assert receive(connection, len(following)) == following


def test_peer_has_its_whole_time_for_the_rest_of_a_request_after_a_pause(serve, servers):
    sessions = []

    def handle(session, request):
        sessions.append(session)
        session.mute.seconds = 3600.0
        return [frame(bytes(request))]

    connection = connect(serve(handle))
    connection.sendall(frame(b"above its quota") + b"\0")
    assert receive(connection, 19) == frame(b"above its quota")
    (session,) = sessions
    with gevent.Timeout(20):
        while not session.mute.on:
            gevent.sleep(0.01)
    ended_at = time.monotonic()
    servers[0].unmute()
    with gevent.Timeout(20):
        while session.mute.on:
            gevent.sleep(0.01)
    assert session.active_at >= ended_at
