import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_writes import (
    ControllerMoved,
    check_elected,
    controller_transactions,
)
from zkbroker.zookeeper import Create, Delete, NodeExists, NoNode


@pytest.fixture
def session():
    session = InstantSession(new_server())
    session.create(paths.CONTROLLER_EPOCH, b"1")
    return session


def test_each_change_stands_for_itself_unless_they_are_in_a_list(session):
    session.create("/b")
    answers = controller_transactions(
        session, [Create("/a"), Create("/b"), [Create("/c"), Delete("/missing")]], 0
    )
    assert answers[0] is None
    assert isinstance(answers[1].cause, NodeExists)
    assert isinstance(answers[2].cause, NoNode)
    assert session.exists("/a") is not None
    assert session.exists("/c") is None


def test_another_controllers_epoch_stops_everything(session):
    session.set(paths.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        controller_transactions(session, [Create("/a")], 0)
    assert session.exists("/a") is None
    assert controller_transactions(session, [], 0) == []


def test_only_the_version_of_its_own_election_tells_a_controller_that_there_is_no_other(session):
    check_elected(session, 0)
    session.set(paths.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        check_elected(session, 0)


def test_an_assignment_is_replaced_under_its_version(session):
    topics.create_topic(session, "t", {0: [1], 1: [2]})
    changed = []

    def add_meanwhile():
        if not changed:
            changed.append(True)
            topics.add_partitions(session, "t", {2: [3]})

    session.before = add_meanwhile
    assert topics.replace_assignment(session, "t", {0: [5, 6]}, 0) == {
        0: (5, 6),
        1: (2,),
        2: (3,),
    }
    with pytest.raises(ControllerMoved):
        topics.replace_assignment(session, "t", {0: [1]}, 4)
    with pytest.raises(NoNode):
        topics.replace_assignment(session, "none", {0: [1]}, 0)


def test_a_topic_is_removed_with_all_that_stands_below_it(session):
    topics.create_topic(session, "t", {0: [1]})
    session.create(paths.partition_state("t", 0), parents=True, ephemeral=True)
    topics.mark_for_deletion(session, "t")
    with pytest.raises(ControllerMoved):
        topics.remove_topic(session, "t", 4)
    topics.remove_topic(session, "t", 0)
    topics.remove_topic(session, "t", 0)
    for path in (paths.topic("t"), paths.topic_config("t"), paths.delete_topic("t")):
        assert session.exists(path) is None


def test_a_topic_that_is_written_to_all_the_time_is_not_removed_for_ever(session):
    topics.create_topic(session, "t", {0: [1]})
    session.ensure_path(f"{paths.topic('t')}/partitions")
    numbers = iter(range(10_000))
    server = session.server
    session.before = lambda: server.create(
        f"{paths.topic('t')}/partitions/{next(numbers)}", parents=True
    )
    with pytest.raises(RegistryError, match="written to while it is removed"):
        topics.remove_topic(session, "t", 0)
