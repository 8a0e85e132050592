"""Election of the controller, and its epochs."""

import json

import pytest

from tests.support.instant_session import InstantSession
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


def register(session, broker_id):
    session.create(paths.broker(broker_id), ephemeral=True, parents=True)


def elect(session, broker_id, **callbacks):
    if session.exists(paths.broker(broker_id)) is None:
        register(session, broker_id)
    election = ControllerElection(session, broker_id, **callbacks)
    election.start()
    return election


def test_next_controller_has_higher_epoch(server):
    one, two = InstantSession(server), InstantSession(server)
    epochs, resigned = [], []
    first = elect(one, 1, on_elected=epochs.append, on_resigned=lambda: resigned.append(1))
    second = elect(two, 2, on_elected=epochs.append)
    assert (first.is_controller, second.is_controller) == (True, False)
    node = json.loads(one.get(paths.CONTROLLER)[0])
    assert node.keys() == {"version", "brokerid", "timestamp"}
    assert node["brokerid"] == current_controller(two) == 1
    assert one.get(paths.CONTROLLER)[1].ephemeral_owner == one.session_id
    first.close()
    until(lambda: second.is_controller)
    until(lambda: epochs == [1, 2])
    assert resigned == [1]
    assert controller_epoch(one) == second.epoch == 2
    second.close()
    assert current_controller(one) is None


def test_lost_session_ends_controllership(server, session):
    resigned = []
    election = elect(session, 1, on_resigned=lambda: resigned.append(session.state))
    session.suspend()
    assert election.is_controller, "its node exists as long as the session"
    session.server.expire(session.session_id)
    session.generation += 1
    assert not election.is_controller
    election._loop.set()
    until(lambda: bool(resigned))
    session.session_id = server.open(session)
    session.reconnect()
    election._loop.set()
    assert current_controller(session) is None, "an unregistered broker is no candidate"
    register(session, 1)
    until(lambda: election.is_controller)
    assert election.epoch == 2
    election.close()


def test_failed_election_start_can_be_repeated(session):
    register(session, 1)
    election = ControllerElection(session, 1)
    transact = session.transaction

    def lost(operations):
        transact(operations)
        session.transaction = transact
        raise ConnectionLost("the response is lost")

    session.transaction = lost
    with pytest.raises(ConnectionLost):
        election.start()
    assert not election.is_controller
    election.start()
    assert election.is_controller
    assert len(session._callbacks) == 1
    election.close()
    assert session.exists(paths.CONTROLLER) is None


def test_elections_have_distinct_epochs(server):
    one, two = InstantSession(server), InstantSession(server)
    read = one.exists
    elections = []

    def exists(path, watch=None):
        # Another broker is elected and resigns between the reads of the epoch and of the node.
        if path == paths.CONTROLLER and not elections:
            elections.append(elect(two, 2))
            elections[0].close()
        return read(path, watch)

    one.exists = exists
    first = elect(one, 1)
    assert first.is_controller
    assert first.epoch == 2, "the other broker had epoch 1"
    first.close()


def test_only_registered_broker_replaces_its_stale_controller_node(server):
    dead, ours = InstantSession(server), InstantSession(server)
    dead.create(paths.CONTROLLER, b'{"brokerid":1}', ephemeral=True)
    election = ControllerElection(ours, 1)
    election.start()
    assert not election.is_controller
    register(ours, 1)
    until(lambda: election.is_controller)
    assert ours.get(paths.CONTROLLER)[1].ephemeral_owner == ours.session_id
    election.close()


def test_controller_watch_follows_changes(session):
    seen = []
    watch = ControllerWatch(session, seen.append)
    watch.start()
    election = elect(session, 4)
    until(lambda: seen == [None, 4])
    election.close()
    until(lambda: seen == [None, 4, None])
    watch.close()


def test_invalid_controller_nodes_are_named(session):
    session.create(paths.CONTROLLER, b"x")
    session.create(paths.CONTROLLER_EPOCH, b"x")
    with pytest.raises(RegistryError, match="/controller names no broker"):
        current_controller(session)
    with pytest.raises(RegistryError, match="/controller_epoch holds no number"):
        controller_epoch(session)
