import json

import pytest

from zkbroker.registry import paths
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.operator_requests import (
    OperatorRequests,
    finish_election,
    read_requests,
    store_reassignment,
)

MOVES = {("t", 0): (1, 2), ("t", 1): (3,)}


@pytest.fixture
def session(controller_session):
    return controller_session


def put(session, path, partitions):
    session.create(path, json.dumps({"version": 1, "partitions": partitions}).encode())


def test_requests_of_tools_are_read(session):
    assert read_requests(session) == OperatorRequests()
    moves = [
        {"topic": topic, "partition": number, "replicas": list(replicas)}
        for (topic, number), replicas in MOVES.items()
    ]
    put(session, paths.REASSIGN_PARTITIONS, moves)
    put(session, paths.PREFERRED_REPLICA_ELECTION, [{"topic": "t", "partition": 1}])
    assert read_requests(session) == OperatorRequests(MOVES, frozenset({("t", 1)}))


def test_invalid_request_node_is_ignored(session):
    session.create(paths.REASSIGN_PARTITIONS, b"garbage")
    session.create(paths.PREFERRED_REPLICA_ELECTION, b"[]")
    assert read_requests(session) == OperatorRequests({}, frozenset())


def test_reassignment_node_is_updated_and_removed(session):
    store_reassignment(session, MOVES, 0)  # no request exists: no node is created
    assert session.exists(paths.REASSIGN_PARTITIONS) is None
    put(session, paths.REASSIGN_PARTITIONS, [])
    store_reassignment(session, MOVES, 0)
    assert read_requests(session).reassignment == MOVES
    with pytest.raises(ControllerMoved):
        store_reassignment(session, {}, 5)
    store_reassignment(session, {}, 0)
    assert session.exists(paths.REASSIGN_PARTITIONS) is None


def test_reverted_partition_stays_in_reassignment(session):
    turned_back = [
        {"topic": "t", "partition": 0, "replicas": [4, 5]},
        {"topic": "t", "partition": 1, "replicas": [3]},
    ]
    put(session, paths.REASSIGN_PARTITIONS, turned_back)
    store_reassignment(session, {}, 0, finished=MOVES)
    assert read_requests(session).reassignment == {("t", 0): (4, 5)}
    store_reassignment(session, {}, 0, finished={("t", 0): (4, 5)})
    assert session.exists(paths.REASSIGN_PARTITIONS) is None


def test_only_controller_finishes_election(session):
    put(session, paths.PREFERRED_REPLICA_ELECTION, [])
    with pytest.raises(ControllerMoved):
        finish_election(session, 5)
    finish_election(session, 0)
    finish_election(session, 0)
    assert session.exists(paths.PREFERRED_REPLICA_ELECTION) is None
