"""Steps that outlast a connection to ZooKeeper."""

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.errors import BadVersion, ConnectionLost, SessionLost
from zkbroker.zookeeper.retries import patiently, while_connected


class Session:
    runtime = get_runtime("threads")

    def __init__(self, *, back=True):
        self.back = back
        self.waited = 0

    def wait_connected(self, timeout_s):
        self.waited += 1
        return self.back


def failing(*errors):
    left = list(errors)

    def step():
        if left:
            raise left.pop(0)
        return "done"

    return step


def test_a_step_is_taken_again_on_the_next_connection():
    session = Session()
    assert patiently(session, failing(ConnectionLost("a"), SessionLost("b")), 30) == "done"
    assert session.waited == 2


def test_other_failures_are_raised_at_once():
    session = Session()
    with pytest.raises(BadVersion):
        patiently(session, failing(BadVersion("x")), 30)
    assert session.waited == 0


def test_the_wait_is_bounded():
    with pytest.raises(ConnectionLost, match="first"):
        patiently(Session(back=False), failing(ConnectionLost("first")), 30)
    with pytest.raises(ConnectionLost):
        patiently(Session(), failing(*[ConnectionLost("again")] * 9), 0)


def test_a_step_is_waited_for_while_zookeeper_answers():
    session = Session()
    release = session.runtime.event()

    def wait_connected(timeout_s):
        release.set()
        return True

    session.wait_connected = wait_connected
    assert while_connected(session, lambda: release.wait(30), 1.0)


def test_what_the_step_raised_is_raised():
    with pytest.raises(BadVersion):
        while_connected(Session(), failing(BadVersion("x")), 1.0)


def test_a_step_is_given_up_when_zookeeper_is_silent():
    session = Session(back=False)
    release = session.runtime.event()
    with pytest.raises(ConnectionLost, match="not answered for 2 s"):
        while_connected(session, release.wait, 2.0)
    release.set()
