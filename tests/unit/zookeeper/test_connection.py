"""The client's callbacks set state, generation and lease of a session."""

import pytest
from kazoo.protocol.states import KazooState

from tests.support.clocks import Clock
from zkbroker.zookeeper import connection as module
from zkbroker.zookeeper.connection import SessionState, ZkConnection


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(100)
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def connection(clock):
    made = ZkConnection("h:1,g:2/a/b/", session_timeout_ms=6000)
    made._proof_of_life = clock.now
    made.state = SessionState.CONNECTED
    made._connected.set()
    return made


def test_address_is_split_into_hosts_and_chroot(connection):
    assert (connection.hosts, connection.chroot) == ("h:1,g:2", "/a/b")
    assert ZkConnection("h:1/").chroot == ZkConnection("h:1").chroot == ""


def test_lost_sessions_are_counted_and_announced(connection):
    seen = []
    unsubscribe = connection.on_state(seen.append)
    for state in (KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED, KazooState.LOST):
        connection._state_changed(state)
    assert [state.value for state in seen] == ["suspended", "lost", "connected", "lost"]
    assert connection.generation == 2
    assert not connection.wait_connected(0)
    unsubscribe()
    connection._state_changed(KazooState.CONNECTED)
    assert len(seen) == 4
    assert connection.wait_connected(0)


def test_lease_ends_by_clock_or_with_session(connection, clock):
    clock.now += 5.9
    assert connection.lease_valid()
    clock.now += 0.2
    assert not connection.lease_valid(), "the server sent nothing in time"
    connection._proof_of_life = clock.now
    assert connection.lease_valid()
    connection._state_changed(KazooState.SUSPENDED)
    assert connection.lease_valid(), "the server still keeps the session"
    connection._state_changed(KazooState.LOST)
    assert not connection.lease_valid()


def test_lease_lasts_for_granted_timeout(connection, clock):
    connection._granted(2.0)
    clock.now += 2.1
    assert not connection.lease_valid()


def test_close_releases_tasks_waiting_for_connection(connection):
    connection._state_changed(KazooState.SUSPENDED)
    waited = []
    task = connection.runtime.spawn(
        lambda: waited.append(connection.wait_connected(60)), name="waiter"
    )
    connection._client = IdleClient()
    connection.close()
    assert task.join(20)
    assert waited == [False]
    assert connection.state is SessionState.LOST
    connection.close()


class IdleClient:
    def remove_listener(self, listener): ...
    def stop(self): ...
    def close(self): ...
