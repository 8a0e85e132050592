"""Steps that are repeated after a lost connection to ZooKeeper."""

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.errors import BadVersion, ConnectionLost, SessionLost
from zkbroker.zookeeper.retries import patiently, while_connected


class WaitingSession:
    """Counts waits for a connection; they end with `connected`."""

    runtime = get_runtime("threads")

    def __init__(self, *, connected=True):
        self.connected = connected
        self.waits = 0

    def wait_connected(self, timeout_s):
        self.waits += 1
        return self.connected


def failing(*errors):
    left = list(errors)

    def step():
        if left:
            raise left.pop(0)
        return "done"

    return step


def test_step_is_repeated_on_next_connection():
    session = WaitingSession()
    assert patiently(session, failing(ConnectionLost("a"), SessionLost("b")), 30) == "done"
    assert session.waits == 2


def test_other_errors_are_not_retried():
    session = WaitingSession()
    with pytest.raises(BadVersion):
        patiently(session, failing(BadVersion("x")), 30)
    assert session.waits == 0


def test_retries_are_bounded():
    with pytest.raises(ConnectionLost, match="first"):
        patiently(WaitingSession(connected=False), failing(ConnectionLost("first")), 30)
    with pytest.raises(ConnectionLost):
        patiently(WaitingSession(), failing(*[ConnectionLost("again")] * 9), 0)


def test_step_may_last_while_zookeeper_responds():
    session = WaitingSession()
    release = session.runtime.event()

    def wait_connected(timeout_s):
        release.set()
        return True

    session.wait_connected = wait_connected
    assert while_connected(session, lambda: release.wait(30), 1.0)


def test_error_of_step_is_raised():
    with pytest.raises(BadVersion):
        while_connected(WaitingSession(), failing(BadVersion("x")), 1.0)


def test_step_is_abandoned_when_zookeeper_is_silent():
    session = WaitingSession(connected=False)
    release = session.runtime.event()
    with pytest.raises(ConnectionLost, match="not answered for 2 s"):
        while_connected(session, release.wait, 2.0)
    release.set()
