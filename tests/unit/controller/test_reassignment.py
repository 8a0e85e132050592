import json

import pytest

from tests.support.controlled_cluster import ControlledCluster
from zkbroker.controller import reassignment
from zkbroker.registry import paths, topics
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import ConnectionLost

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture(params=list(StateForm))
def cluster(request):
    cluster = ControlledCluster(request.param)
    cluster.start(0, 1, 2, 3)
    cluster.create_topic("t", [0, 1], [1, 0])
    cluster.elect_controller()
    cluster.clear_sent()
    return cluster


def encode(*moves):
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for (topic, number), replicas in moves
    ]
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def reassign(cluster, *moves):
    cluster.session.create(paths.REASSIGN_PARTITIONS, encode(*moves))
    cluster.settle()


def change_isr(cluster, key, *isr):
    """Let the leader store another ISR, and let the controller react."""
    cluster.change_isr(key, *isr)
    cluster.settle()


def assigned(cluster, key):
    return list(topics.assignment(cluster.session, key[0])[key[1]])


def test_partition_moves_when_new_replicas_are_in_sync(cluster):
    reassign(cluster, (T0, [2, 3]))
    assert assigned(cluster, T0) == [0, 1, 2, 3]
    assert cluster.stored(T0) == (0, 1, [0, 1])
    decided = cluster.channels.leader_and_isr(T0)
    assert {broker for broker, state in decided.items() if state.is_new} == {2, 3}
    assert decided.keys() == {0, 1, 2, 3}
    assert decided[2].replicas == [0, 1, 2, 3]
    change_isr(cluster, T0, 0, 1, 2)
    assert assigned(cluster, T0) == [0, 1, 2, 3], "broker 3 is not in sync yet"
    assert not cluster.channels.stopped(0, delete=False)
    cluster.clear_sent()
    change_isr(cluster, T0, 0, 1, 2, 3)
    assert assigned(cluster, T0) == [2, 3]
    assert cluster.stored(T0) == (2, 2, [2, 3])
    assert cluster.channels.leader_and_isr(T0).keys() == {2, 3}
    assert cluster.channels.leader_and_isr(T0)[3].replicas == [2, 3]
    assert (
        cluster.channels.stopped(0, delete=True) == cluster.channels.stopped(1, delete=True) == {T0}
    )
    assert cluster.channels.metadata(T0)[1].replicas == [2, 3]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


@pytest.mark.parametrize("left", [[0, 1, 2], [0, 1]])
def test_move_waits_when_new_replica_leaves_isr_before_the_decision(cluster, monkeypatch, left):
    reassign(cluster, (T0, [2, 3]))
    cluster.change_isr(T0, 0, 1, 2, 3)
    write = cluster.states.write

    def overtaken(*args):
        monkeypatch.undo()
        cluster.change_isr(T0, *left)
        return write(*args)

    monkeypatch.setattr(cluster.states, "write", overtaken)
    cluster.settle()
    assert cluster.stored(T0) == (0, 1, left)
    assert assigned(cluster, T0) == [0, 1, 2, 3]
    assert not cluster.channels.stopped(0, delete=False)
    change_isr(cluster, T0, 0, 1, 2, 3)
    assert assigned(cluster, T0) == [2, 3]
    assert cluster.stored(T0) == (2, 2, [2, 3])


def test_leader_in_new_assignment_keeps_leading(cluster):
    reassign(cluster, (T0, [0, 2]))
    change_isr(cluster, T0, 0, 1, 2)
    assert cluster.stored(T0) == (0, 2, [0, 2])
    assert cluster.channels.stopped(1, delete=True) == {T0}


def test_reassignment_znode_drops_finished_partitions(cluster):
    reassign(cluster, (T0, [0, 2]), (T1, [1, 3]))
    change_isr(cluster, T0, 0, 1, 2)
    left = cluster.json(paths.REASSIGN_PARTITIONS)
    assert left["partitions"] == [{"topic": "t", "partition": 1, "replicas": [1, 3]}]
    change_isr(cluster, T1, 1, 0, 3)
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_new_replica_order_takes_effect_at_once(cluster):
    reassign(cluster, (T0, [1, 0]))
    assert assigned(cluster, T0) == [1, 0]
    assert cluster.stored(T0) == (0, 1, [0, 1])
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)
    cluster.term.moves.elect_preferred([T0])
    assert cluster.stored(T0)[0] == 1


def test_unchanged_assignment_finishes_without_new_epoch(cluster):
    reassign(cluster, (T0, [0, 1]))
    assert cluster.stored(T0) == (0, 0, [0, 1])
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


@pytest.mark.parametrize("replicas", [[], [2, 2], [0, 77], [-1], [0, -1]])
def test_invalid_replicas_are_refused(cluster, replicas):
    reassign(cluster, (T0, replicas), (("x", 0), [1]))
    assert assigned(cluster, T0) == [0, 1]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_refused_move_does_not_stop_other_moves(cluster):
    reassign(cluster, (T0, [0, 77]), (T1, [1, 2]))
    left = cluster.json(paths.REASSIGN_PARTITIONS)
    assert left["partitions"] == [{"topic": "t", "partition": 1, "replicas": [1, 2]}]
    change_isr(cluster, T1, 1, 0, 2)
    assert assigned(cluster, T1) == [1, 2]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


@pytest.mark.parametrize("text", [b"garbage", b"[]", b"", b'{"partitions":[{"topic":"t"}]}'])
def test_malformed_request_znodes_are_removed_and_logged(cluster, text, caplog):
    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
        cluster.session.create(path, text)
        cluster.settle()
        assert not cluster.exists(path)
        assert f"{path} holds" in caplog.text
    assert assigned(cluster, T0) == [0, 1]
    reassign(cluster, (T0, [1, 0]))
    assert assigned(cluster, T0) == [1, 0], "the next request is carried out"


@pytest.mark.parametrize("next_controller", [False, True])
def test_move_is_reverted(cluster, next_controller):
    reassign(cluster, (T0, [2, 3]))
    cluster.change_isr(T0, 0, 1, 2)
    cluster.session.set(paths.REASSIGN_PARTITIONS, encode((T0, [0, 1])))
    if next_controller:
        cluster.elect_controller()
    cluster.settle()
    assert assigned(cluster, T0) == [0, 1]
    assert cluster.stored(T0)[::2] == (0, [0, 1])
    assert (
        cluster.channels.stopped(2, delete=True) == cluster.channels.stopped(3, delete=True) == {T0}
    )
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_move_is_reverted_while_another_finishes(cluster):
    reassign(cluster, (T0, [2, 3]), (T1, [1, 2]))
    cluster.change_isr(T1, 1, 0, 2)
    cluster.session.set(paths.REASSIGN_PARTITIONS, encode((T0, [0, 1]), (T1, [1, 2])))
    # The controller sees the new partition state before the new request.
    cluster.term._reassignment.states_changed([T1])
    assert assigned(cluster, T1) == [1, 2]
    cluster.settle()
    assert assigned(cluster, T0) == [0, 1]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_move_waits_for_dead_new_replica(cluster):
    reassign(cluster, (T0, [0, 3]))
    cluster.lose(3)
    cluster.elect_controller()
    assert cluster.exists(paths.REASSIGN_PARTITIONS)
    cluster.clear_sent()
    cluster.join(3)
    assert cluster.channels.leader_and_isr(T0)[3].is_new
    change_isr(cluster, T0, 0, 1, 3)
    assert assigned(cluster, T0) == [0, 3]


def test_next_controller_continues_reassignment(cluster):
    reassign(cluster, (T0, [2, 3]))
    cluster.elect_controller()
    assert assigned(cluster, T0) == [0, 1, 2, 3]
    change_isr(cluster, T0, 0, 1, 2, 3)
    assert assigned(cluster, T0) == [2, 3]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_dropped_replicas_are_stopped_although_zookeeper_fails_at_the_end(cluster):
    # The next controller no longer finds them in the assignment.
    reassign(cluster, (T0, [2, 3]))

    def fail_once_assigned():
        if assigned(cluster, T0) == [2, 3]:
            raise ConnectionLost("not connected")

    cluster.change_isr(T0, 0, 1, 2, 3)
    cluster.session.before = fail_once_assigned
    with pytest.raises(ConnectionLost):
        cluster.settle()
    cluster.session.before = lambda: None
    cluster.elect_controller()
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)
    assert (
        cluster.channels.stopped(0, delete=True) == cluster.channels.stopped(1, delete=True) == {T0}
    )


def test_move_finishes_after_leader_failure(cluster):
    reassign(cluster, (T0, [2, 3]))
    cluster.lose(0)
    assert cluster.stored(T0)[0] == 1
    change_isr(cluster, T0, 1, 2, 3)
    assert cluster.stored(T0)[0] == 2
    assert assigned(cluster, T0) == [2, 3]


def test_deletion_waits_for_reassignment(cluster):
    reassign(cluster, (T0, [2, 3]))
    cluster.delete_topic()
    assert cluster.exists(paths.topic("t"))
    change_isr(cluster, T0, 0, 1, 2, 3)
    assert not cluster.exists(paths.topic("t"))


def test_moving_partition_of_deleted_topic_gets_new_leader(cluster):
    reassign(cluster, (T0, [2, 3]))
    cluster.delete_topic()
    cluster.lose(0, 1)
    assert cluster.stored(T0)[0] == -1
    cluster.join(0, 1)
    assert cluster.stored(T0)[0] in (0, 1)
    change_isr(cluster, T0, *cluster.stored(T0)[:1], 2, 3)
    assert not cluster.exists(paths.topic("t"))


def test_rebalance_skips_preferred_election_during_reassignment(cluster):
    reassign(cluster, (T0, [2, 3]))
    cluster.lose(1)
    cluster.join(1)
    change_isr(cluster, T1, 0, 1)
    cluster.term.moves.rebalance(0)
    assert cluster.stored(T1)[0] == 0


def test_moves_that_finish_together_need_one_znode_write(cluster, monkeypatch):
    writes = []
    store = reassignment.store_reassignment
    monkeypatch.setattr(
        reassignment, "store_reassignment", lambda *args: writes.append(store(*args))
    )
    reassign(cluster, (T0, [2, 3]), (T1, [1, 2]))
    cluster.change_isr(T0, 0, 1, 2, 3)
    change_isr(cluster, T1, 1, 0, 2)
    assert (assigned(cluster, T0), assigned(cluster, T1)) == ([2, 3], [1, 2])
    assert len(writes) == 1
