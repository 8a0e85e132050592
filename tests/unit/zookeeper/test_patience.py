"""Steps that outlast a connection to ZooKeeper."""

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.errors import BadVersion, ConnectionLost, SessionLost
from zkbroker.zookeeper.patience import patiently


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
