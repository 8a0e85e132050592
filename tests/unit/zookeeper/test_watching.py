"""The owner loop over a part of the tree, with reading and session played."""

import logging

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import watching
from zkbroker.zookeeper.errors import ConnectionLost
from zkbroker.zookeeper.watching import Mark, WatchLoop


class PlayedSession:
    closed = False

    def __init__(self):
        self.runtime = get_runtime("threads")

    def wait_connected(self, timeout_s):
        return True


def test_a_view_is_kept_up_to_date_whatever_went_wrong_once(monkeypatch, caplog):
    monkeypatch.setattr(watching, "RETRY_S", 0.001)
    caplog.set_level(logging.WARNING)
    troubles = [ConnectionLost("away"), LookupError("a defect of the reading")]
    refusals = [LookupError("a defect of who is told")]
    wanted = 0
    seen = []
    arrived = get_runtime("threads").event()

    def read(watch):
        if wanted and troubles:
            raise troubles.pop(0)
        return wanted

    def told(view):
        if view and refusals:
            raise refusals.pop(0)
        seen.append(view)
        if view:
            arrived.set()

    loop = WatchLoop(PlayedSession(), read, told, name="played")
    loop.start()
    wanted = 1
    loop._loop.set()
    assert arrived.wait(20)
    loop.close()
    assert seen == [0, 1]
    assert caplog.text.count("played failed, will repeat") == 3


def test_marks_for_one_thing_are_equal():
    noted = []
    mark = Mark(noted.append, ("t", 0))
    assert mark == Mark(noted.append, ("t", 0))
    assert len({mark, Mark(noted.append, ("t", 0)), Mark(noted.append, ("t", 1))}) == 2
    mark.set()
    assert noted == [("t", 0)]
