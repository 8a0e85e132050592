"""States, generation and lease of a session, as the client's callbacks bring them."""

import pytest
from kazoo.protocol.states import KazooState

from tests.support.clocks import Clock
from zkbroker.zookeeper import connection as module
from zkbroker.zookeeper.connection import Connection, SessionState


@pytest.fixture
def clock(monkeypatch):
    played = Clock(100)
    monkeypatch.setattr(module, "time", played)
    return played


@pytest.fixture
def connection(clock):
    made = Connection("h:1,g:2/a/b/", session_timeout_ms=6000)
    made._proof_of_life = clock.now
    made._state = SessionState.CONNECTED
    made._connected.set()
    return made


def test_the_address_is_taken_apart(connection):
    assert (connection.hosts, connection.chroot) == ("h:1,g:2", "/a/b")
    assert Connection("h:1/").chroot == Connection("h:1").chroot == ""


def test_each_loss_is_counted_and_announced_in_order(connection):
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


def test_the_lease_runs_out_by_the_clock_and_ends_with_the_session(connection, clock):
    clock.now += 5.9
    assert connection.lease_valid()
    clock.now += 0.2
    assert not connection.lease_valid(), "nobody has said anything yet"
    connection._proof_of_life = clock.now
    assert connection.lease_valid()
    connection._state_changed(KazooState.SUSPENDED)
    assert connection.lease_valid(), "the server still keeps the session"
    connection._state_changed(KazooState.LOST)
    assert not connection.lease_valid()


def test_the_lease_is_what_the_server_granted(connection, clock):
    connection._granted(2.0)
    clock.now += 2.1
    assert not connection.lease_valid()


def test_a_closed_session_releases_tasks_that_wait_for_a_connection(connection):
    connection._state_changed(KazooState.SUSPENDED)
    waited = []
    task = connection.runtime.spawn(
        lambda: waited.append(connection.wait_connected(60)), name="waiter"
    )
    connection._client = PlayedClient()
    connection.close()
    assert task.join(20)
    assert waited == [False]
    assert connection.state is SessionState.LOST
    connection.close()


class PlayedClient:
    def remove_listener(self, listener): ...
    def stop(self): ...
    def close(self): ...
