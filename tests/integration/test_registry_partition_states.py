"""Decisions about partitions on a real ZooKeeper, where sessions and transactions are real."""

from dataclasses import replace

import pytest

from tests.support.zookeeper import expire, until
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.notifications import isr_changes, note_isr_changes, remove_notes
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import ZkSession

KEY = ("t", 0)


@pytest.fixture(params=list(StateForm))
def states(zk: ZkSession, request: pytest.FixtureRequest) -> PartitionStates:
    topics.create_topic(zk, "t", {n: [1, 2] for n in range(3000)})
    zk.create(paths.CONTROLLER_EPOCH, b"1")
    return PartitionStates(zk, request.param)


def test_thousands_of_decisions_are_stored_read_and_changed(states: PartitionStates) -> None:
    keys = [("t", number) for number in range(3000)]
    stored = states.write({key: LeaderAndIsr(1, 0, (1, 2), 1) for key in keys}, 0)
    assert stored.keys() == set(keys)
    assert states.read(keys) == stored
    assert states.register_leader(stored) == set()
    changed = states.update_isr({key: replace(state, isr=(1,)) for key, state in stored.items()})
    assert all(each.written for each in changed.values())
    assert {state.isr for state in states.read(keys).values()} == {(1,)}


def test_leader_registration_ends_with_session_and_decision_stays(
    zk: ZkSession, chroot: str
) -> None:
    topics.create_topic(zk, "t", {0: [1]})
    zk.create(paths.CONTROLLER_EPOCH, b"1")
    path = paths.partition_state(*KEY)
    with ZkSession(chroot) as broker:
        leader = PartitionStates(broker)
        stored = PartitionStates(zk).write({KEY: LeaderAndIsr(1, 0, (1,), 1)}, 0)
        assert leader.register_leader(stored) == set()
        expire(broker)
        until(lambda: zk.exists(path) is None)
        assert PartitionStates(zk).read([KEY]) == stored
        until(lambda: broker.generation > 0 and broker.wait_connected(0.1))
        assert leader.update_isr(stored)[KEY].written, "the same session no more, the same leader"
        stat = zk.exists(path)
        assert stat is not None
        assert stat.ephemeral_owner == broker.session_id


def test_isr_change_notifications_are_read_and_removed(zk: ZkSession) -> None:
    zk.create(paths.CONTROLLER_EPOCH, b"1")
    assert isr_changes(zk) == ([], {})
    note_isr_changes(zk, [KEY, ("u", 3)])
    note_isr_changes(zk, [KEY])
    zk.create(paths.ISR_CHANGE_PREFIX, b"garbage", sequential=True)
    notes, keys = isr_changes(zk)
    assert list(keys) == [KEY, ("u", 3)]
    assert len(notes) == 3
    with pytest.raises(ControllerMoved):
        remove_notes(zk, notes, 7)
    assert isr_changes(zk)[0] == notes
    remove_notes(zk, notes, 0)
    assert isr_changes(zk) == ([], {})
