import contextlib

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_writes import (
    ControllerMoved,
    check_elected,
    controller_transactions,
)
from zkbroker.zookeeper import ConnectionLost, Create, Delete, NodeExists, NoNode


@pytest.fixture
def session(controller_session):
    return controller_session


def test_only_listed_changes_form_one_transaction(session):
    session.create("/b")
    answers = controller_transactions(
        session, [Create("/a"), Create("/b"), [Create("/c"), Delete("/missing")]], 0
    )
    assert answers[0] is None
    assert isinstance(answers[1].cause, NodeExists)
    assert isinstance(answers[2].cause, NoNode)
    assert session.exists("/a") is not None
    assert session.exists("/c") is None


def test_newer_controller_epoch_stops_writes(session):
    session.set(paths.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        controller_transactions(session, [Create("/a")], 0)
    assert session.exists("/a") is None
    assert controller_transactions(session, [], 0) == []


def test_check_elected_detects_newer_controller(session):
    check_elected(session, 0)
    session.set(paths.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        check_elected(session, 0)


def test_assignment_replacement_keeps_concurrent_growth(session):
    topics.create_topic(session, "t", {0: [1], 1: [2]})
    changed = []

    def add_meanwhile():
        if not changed:
            changed.append(True)
            topics.add_partitions(session, "t", {2: [3]})

    session.before = add_meanwhile
    replaced = topics.replace_assignment(session, "t", {0: [5, 6]}, 0)
    assert replaced == {0: (5, 6), 1: (2,), 2: (3,)}
    with pytest.raises(ControllerMoved):
        topics.replace_assignment(session, "t", {0: [1]}, 4)
    with pytest.raises(NoNode):
        topics.replace_assignment(session, "none", {0: [1]}, 0)


def test_topic_is_removed_with_its_nodes(session):
    topics.create_topic(session, "t", {0: [1]})
    session.create(paths.partition_state("t", 0), parents=True, ephemeral=True)
    topics.mark_for_deletion(session, "t")
    with pytest.raises(ControllerMoved):
        topics.remove_topic(session, "t", 4)
    topics.remove_topic(session, "t", 0)
    topics.remove_topic(session, "t", 0)
    for path in (paths.topic("t"), paths.topic_config("t"), paths.delete_topic("t")):
        assert session.exists(path) is None


def test_removal_of_constantly_written_topic_gives_up(session):
    topics.create_topic(session, "t", {0: [1]})
    session.ensure_path(f"{paths.topic('t')}/partitions")
    numbers = iter(range(10_000))
    server = session.server
    session.before = lambda: server.create(
        f"{paths.topic('t')}/partitions/{next(numbers)}", parents=True
    )
    with pytest.raises(RegistryError, match="written to while it is removed"):
        topics.remove_topic(session, "t", 0)


def test_settings_of_topic_created_during_removal_stay(session):
    topics.create_topic(session, "t", {0: [1]}, {"retention.ms": "1"})
    topics.mark_for_deletion(session, "t")
    created = []

    def create_once_it_is_gone():
        if not created and session.exists(paths.topic("t")) is None:
            created.append(True)
            topics.create_topic(session, "t", {0: [2]}, {"cleanup.policy": "compact"})

    session.before = create_once_it_is_gone
    topics.remove_topic(session, "t", 0)
    session.before = lambda: None
    create_once_it_is_gone()
    assert topics.topic_config(session, "t") == {"cleanup.policy": "compact"}


def test_removed_topic_leaves_no_request_when_the_connection_breaks(session):
    topics.create_topic(session, "t", {0: [1]})
    topics.mark_for_deletion(session, "t")

    def break_once_it_is_gone():
        if session.exists(paths.topic("t")) is None:
            raise ConnectionLost("not connected")

    session.before = break_once_it_is_gone
    with contextlib.suppress(ConnectionLost):
        topics.remove_topic(session, "t", 0)
    # The next controller would delete a new topic of that name.
    assert topics.topics_to_delete(session) == []
