"""A pause ends after its time, or when it is ended."""

import gevent
import gevent.event

from zkbroker.network.server.muting import Mute


class RecordingEvent:
    def __init__(self):
        self.waited = []
        self.ended = 0

    def set(self):
        self.ended += 1

    def wait(self, timeout):
        self.waited.append(timeout)


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
