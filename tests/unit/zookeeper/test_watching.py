"""The watch loop of a part of the tree, with a scripted read function."""

import logging

from tests.support.instant_session import InstantSession
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import watching
from zkbroker.zookeeper.errors import ConnectionLost
from zkbroker.zookeeper.watching import Mark, WatchLoop


def test_watch_loop_repeats_failed_steps(monkeypatch, caplog):
    monkeypatch.setattr(watching, "RETRY_S", 0.001)
    caplog.set_level(logging.WARNING)
    failures = [ConnectionLost("closed"), LookupError("a defect of the reader")]
    refusals = [LookupError("a defect of the receiver")]
    wanted = 0
    seen = []
    arrived = get_runtime("threads").event()

    def read(watch):
        if wanted and failures:
            raise failures.pop(0)
        return wanted

    def deliver(view):
        if view and refusals:
            raise refusals.pop(0)
        seen.append(view)
        if view:
            arrived.set()

    loop = WatchLoop(InstantSession(), read, deliver, name="topics")
    loop.start()
    wanted = 1
    loop._loop.set()
    assert arrived.wait(20)
    loop.close()
    assert seen == [0, 1]
    assert caplog.text.count("topics failed, will repeat") == 3


def test_marks_of_same_key_are_equal():
    noted = []
    mark = Mark(noted.append, ("t", 0))
    assert mark == Mark(noted.append, ("t", 0))
    assert len({mark, Mark(noted.append, ("t", 0)), Mark(noted.append, ("t", 1))}) == 2
    mark.set()
    assert noted == [("t", 0)]
