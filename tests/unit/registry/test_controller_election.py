"""Election of the controller, on a ZooKeeper in memory."""

import json

import pytest

from tests.support.instant_session import InstantSession, new_server
from tests.support.zookeeper import until
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.controller_election import (
    ControllerElection,
    ControllerWatch,
    controller_epoch,
    current_controller,
)
from zkbroker.zookeeper import ConnectionLost


@pytest.fixture
def server():
    return new_server()


def register(session, broker_id):
    session.create(paths.broker(broker_id), ephemeral=True, parents=True)


def elect(session, broker_id, **callbacks):
    if session.exists(paths.broker(broker_id)) is None:
        register(session, broker_id)
    election = ControllerElection(session, broker_id, **callbacks)
    election.start()
    return election


def test_the_first_is_elected_and_the_next_follows_with_a_higher_epoch(server):
    one, two = InstantSession(server), InstantSession(server)
    epochs = []
    first = elect(one, 1, on_elected=epochs.append)
    second = elect(two, 2, on_elected=epochs.append)
    assert (first.is_controller, second.is_controller) == (True, False)
    assert json.loads(one.get(paths.CONTROLLER)[0])["brokerid"] == current_controller(two) == 1
    assert one.get(paths.CONTROLLER)[1].ephemeral_owner == one.session_id
    first.close()
    until(lambda: second.is_controller)
    until(lambda: epochs == [1, 2])
    assert controller_epoch(one) == second.epoch == 2
    second.close()
    assert current_controller(one) is None


def test_who_loses_the_session_resigns_before_anybody_is_asked(server):
    session = InstantSession(server)
    resigned = []
    election = elect(session, 1, on_resigned=lambda: resigned.append(session.state))
    session.suspend()
    assert election.is_controller, "its node is there as long as the session"
    session.server.expire(session.session_id)
    session.generation += 1
    assert not election.is_controller
    election._loop.set()
    until(lambda: bool(resigned))
    session.session_id = server.open(session)
    session.reconnect()
    election._loop.set()
    assert current_controller(session) is None, "it does not stand before it is registered"
    register(session, 1)
    until(lambda: election.is_controller)
    assert election.epoch == 2
    election.close()


def test_a_start_that_failed_is_taken_again(server):
    session = InstantSession(server)
    register(session, 1)
    election = ControllerElection(session, 1)
    transact = session.transaction

    def lost(operations):
        transact(operations)
        session.transaction = transact
        raise ConnectionLost("its answer is lost")

    session.transaction = lost
    with pytest.raises(ConnectionLost):
        election.start()
    assert not election.is_controller
    election.start()
    assert election.is_controller
    assert len(session._callbacks) == 1
    election.close()
    assert session.exists(paths.CONTROLLER) is None


def test_two_elections_never_share_an_epoch(server):
    one, two = InstantSession(server), InstantSession(server)
    read = one.exists
    elections = []

    def exists(path, watch=None):
        # Another broker is elected, and resigns, between our reading of the epoch and of the node.
        if path == paths.CONTROLLER and not elections:
            elections.append(elect(two, 2))
            elections[0].close()
        return read(path, watch)

    one.exists = exists
    first = elect(one, 1)
    assert first.is_controller
    assert first.epoch == 2, "the other one had epoch 1"
    first.close()


def test_the_node_of_a_dead_predecessor_is_replaced_only_by_the_broker_that_holds_its_id(server):
    dead, ours = InstantSession(server), InstantSession(server)
    dead.create(paths.CONTROLLER, b'{"brokerid":1}', ephemeral=True)
    election = ControllerElection(ours, 1)
    election.start()
    assert not election.is_controller
    register(ours, 1)
    until(lambda: election.is_controller)
    assert ours.get(paths.CONTROLLER)[1].ephemeral_owner == ours.session_id
    election.close()


def test_the_controller_is_watched_while_it_changes(server):
    session = InstantSession(server)
    seen = []
    watch = ControllerWatch(session, seen.append)
    watch.start()
    election = elect(session, 4)
    until(lambda: seen == [None, 4])
    election.close()
    until(lambda: seen == [None, 4, None])
    watch.close()


def test_nodes_that_hold_something_else_are_named(server):
    session = InstantSession(server)
    session.create(paths.CONTROLLER, b"x")
    session.create(paths.CONTROLLER_EPOCH, b"x")
    with pytest.raises(RegistryError, match="/controller names no broker"):
        current_controller(session)
    with pytest.raises(RegistryError, match="/controller_epoch holds no number"):
        controller_epoch(session)
