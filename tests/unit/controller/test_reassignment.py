import json

import pytest

from tests.support.controlled_cluster import ControlledCluster
from zkbroker.controller import reassignment
from zkbroker.registry import paths, topics
from zkbroker.registry.state_form import StateForm

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture(params=list(StateForm))
def cluster(request):
    cluster = ControlledCluster(request.param)
    cluster.start(0, 1, 2, 3)
    cluster.topic("t", [0, 1], [1, 0])
    cluster.begin()
    cluster.forget()
    return cluster


def ask(cluster, *moves):
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for (topic, number), replicas in moves
    ]
    cluster.ask(paths.REASSIGN_PARTITIONS, {"version": 1, "partitions": partitions})
    cluster.settle()


def assigned(cluster, key):
    return list(topics.assignment(cluster.session, key[0])[key[1]])


def test_a_partition_moves_once_its_new_replicas_have_caught_up(cluster):
    ask(cluster, (T0, [2, 3]))
    assert assigned(cluster, T0) == [0, 1, 2, 3]
    assert cluster.led(T0) == (0, 1, [0, 1])
    decided = cluster.notes.decided(T0)
    assert {broker for broker, state in decided.items() if state.is_new} == {2, 3}
    assert decided.keys() == {0, 1, 2, 3}
    assert decided[2].replicas == [0, 1, 2, 3]
    cluster.isr_changed(T0, 0, 1, 2)
    cluster.settle()
    assert assigned(cluster, T0) == [0, 1, 2, 3], "one of them is still behind"
    assert not cluster.notes.stopped(0, delete=False)
    cluster.forget()
    cluster.isr_changed(T0, 0, 1, 2, 3)
    cluster.settle()
    assert assigned(cluster, T0) == [2, 3]
    assert cluster.led(T0) == (2, 2, [2, 3])
    assert cluster.notes.decided(T0).keys() == {2, 3}
    assert cluster.notes.decided(T0)[3].replicas == [2, 3]
    assert cluster.notes.stopped(0, delete=True) == cluster.notes.stopped(1, delete=True) == {T0}
    assert cluster.notes.metadata(T0)[1].replicas == [2, 3]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_a_leader_that_stays_keeps_leading(cluster):
    ask(cluster, (T0, [0, 2]))
    cluster.isr_changed(T0, 0, 1, 2)
    cluster.settle()
    assert cluster.led(T0) == (0, 2, [0, 2])
    assert cluster.notes.stopped(1, delete=True) == {T0}


def test_the_node_shrinks_as_partitions_are_done(cluster):
    ask(cluster, (T0, [0, 2]), (T1, [1, 3]))
    cluster.isr_changed(T0, 0, 1, 2)
    cluster.settle()
    left = cluster.json(paths.REASSIGN_PARTITIONS)
    assert left["partitions"] == [{"topic": "t", "partition": 1, "replicas": [1, 3]}]
    cluster.isr_changed(T1, 1, 0, 3)
    cluster.settle()
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_another_order_alone_is_done_at_once(cluster):
    ask(cluster, (T0, [1, 0]))
    assert assigned(cluster, T0) == [1, 0]
    assert cluster.led(T0) == (0, 1, [0, 1])
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)
    cluster.term.moves.elect_preferred([T0])
    assert cluster.led(T0)[0] == 1


def test_what_is_there_already_is_done_without_a_decision(cluster):
    ask(cluster, (T0, [0, 1]))
    assert cluster.led(T0) == (0, 0, [0, 1])
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


@pytest.mark.parametrize("replicas", [[], [2, 2], [0, 77], [-1], [0, -1]])
def test_what_cannot_be_is_refused(cluster, replicas):
    ask(cluster, (T0, replicas), (("x", 0), [1]))
    assert assigned(cluster, T0) == [0, 1]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_a_refused_move_leaves_the_node_and_the_others_go_on(cluster):
    ask(cluster, (T0, [0, 77]), (T1, [1, 2]))
    left = cluster.json(paths.REASSIGN_PARTITIONS)
    assert left["partitions"] == [{"topic": "t", "partition": 1, "replicas": [1, 2]}]
    cluster.isr_changed(T1, 1, 0, 2)
    cluster.settle()
    assert assigned(cluster, T1) == [1, 2]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


@pytest.mark.parametrize("text", [b"garbage", b"[]", b"", b'{"partitions":[{"topic":"t"}]}'])
def test_nodes_that_hold_no_request_are_removed_and_named(cluster, text, caplog):
    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
        cluster.session.create(path, text)
        cluster.settle()
        assert not cluster.exists(path)
        assert f"{path} holds" in caplog.text
    assert assigned(cluster, T0) == [0, 1]
    ask(cluster, (T0, [1, 0]))
    assert assigned(cluster, T0) == [1, 0], "the next one is looked at"


def turn_back(cluster, *moves):
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for (topic, number), replicas in moves
    ]
    text = json.dumps({"version": 1, "partitions": partitions})
    cluster.session.set(paths.REASSIGN_PARTITIONS, text.encode())


@pytest.mark.parametrize("next_controller", [False, True])
def test_a_move_is_turned_back(cluster, next_controller):
    ask(cluster, (T0, [2, 3]))
    cluster.isr_changed(T0, 0, 1, 2)
    turn_back(cluster, (T0, [0, 1]))
    if next_controller:
        cluster.begin()
    cluster.settle()
    assert assigned(cluster, T0) == [0, 1]
    assert cluster.led(T0)[::2] == (0, [0, 1])
    assert cluster.notes.stopped(2, delete=True) == cluster.notes.stopped(3, delete=True) == {T0}
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_a_move_that_is_turned_back_while_another_ends_is_turned_back(cluster):
    ask(cluster, (T0, [2, 3]), (T1, [1, 2]))
    cluster.isr_changed(T1, 1, 0, 2)
    turn_back(cluster, (T0, [0, 1]), (T1, [1, 2]))
    # The controller looks at the state first.
    cluster.term._reassignment.states_changed([T1])
    assert assigned(cluster, T1) == [1, 2]
    cluster.settle()
    assert assigned(cluster, T0) == [0, 1]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_a_new_replica_that_goes_away_is_waited_for(cluster):
    ask(cluster, (T0, [0, 3]))
    cluster.kill(3)
    cluster.settle()
    cluster.begin()
    assert cluster.exists(paths.REASSIGN_PARTITIONS)
    cluster.forget()
    cluster.start(3)
    cluster.settle()
    assert cluster.notes.decided(T0)[3].is_new
    cluster.isr_changed(T0, 0, 1, 3)
    cluster.settle()
    assert assigned(cluster, T0) == [0, 3]


def test_the_next_controller_goes_on(cluster):
    ask(cluster, (T0, [2, 3]))
    cluster.begin()
    assert assigned(cluster, T0) == [0, 1, 2, 3]
    cluster.isr_changed(T0, 0, 1, 2, 3)
    cluster.settle()
    assert assigned(cluster, T0) == [2, 3]
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_a_leader_that_dies_meanwhile_is_replaced_and_the_move_ends(cluster):
    ask(cluster, (T0, [2, 3]))
    cluster.kill(0)
    cluster.settle()
    assert cluster.led(T0)[0] == 1
    cluster.isr_changed(T0, 1, 2, 3)
    cluster.settle()
    assert cluster.led(T0)[0] == 2
    assert assigned(cluster, T0) == [2, 3]


def test_a_topic_is_deleted_after_its_reassignment(cluster):
    ask(cluster, (T0, [2, 3]))
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.isr_changed(T0, 0, 1, 2, 3)
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))


def test_a_partition_that_moves_keeps_its_leader_though_its_topic_is_to_be_deleted(cluster):
    ask(cluster, (T0, [2, 3]))
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.kill(0, 1)
    cluster.settle()
    assert cluster.led(T0)[0] == -1
    cluster.start(0, 1)
    cluster.settle()
    assert cluster.led(T0)[0] in (0, 1)
    cluster.isr_changed(T0, *cluster.led(T0)[:1], 2, 3)
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))


def test_preferred_leaders_are_not_balanced_meanwhile(cluster):
    ask(cluster, (T0, [2, 3]))
    cluster.kill(1)
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    cluster.isr_changed(T1, 0, 1)
    cluster.settle()
    cluster.term.moves.rebalance(0)
    assert cluster.led(T1)[0] == 0


def test_partitions_that_finish_together_cost_one_write_of_the_node(cluster, monkeypatch):
    writes = []
    store = reassignment.store_reassignment
    monkeypatch.setattr(
        reassignment, "store_reassignment", lambda *args: writes.append(store(*args))
    )
    ask(cluster, (T0, [2, 3]), (T1, [1, 2]))
    cluster.isr_changed(T0, 0, 1, 2, 3)
    cluster.isr_changed(T1, 1, 0, 2)
    cluster.settle()
    assert (assigned(cluster, T0), assigned(cluster, T1)) == ([2, 3], [1, 2])
    assert len(writes) == 1
