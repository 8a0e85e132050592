"""Events of a cluster, line by line: what is stored, who is told what, in which order."""

import json

import pytest

from tests.support.controlled_cluster import ControlledCluster
from tests.support.instant_session import InstantSession
from zkbroker.controller import broker_changes, term
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol import ApiKey
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.notifications import note_isr_changes, note_log_dir_failure
from zkbroker.registry.partition_states import LeaderAndIsr
from zkbroker.registry.state_form import StateForm

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


@pytest.fixture(params=list(StateForm))
def cluster(request):
    cluster = ControlledCluster(request.param)
    cluster.start(0, 1, 2)
    cluster.begin()
    return cluster


@pytest.fixture
def replicated(cluster):
    cluster.topic("t", [0, 1, 2], [1, 2, 0], [2, 0])
    cluster.settle()
    cluster.forget()
    return cluster


def told(states):
    return {broker: (s.leader, s.leader_epoch, s.isr) for broker, s in states.items()}


# -- election of a controller


def test_the_first_controller_sends_the_live_brokers_to_each_broker(cluster):
    first = cluster.notes.sent[0]
    assert first.request.api_key == ApiKey.UPDATE_METADATA
    assert {each.broker for each in cluster.notes.sent} == {0, 1, 2}
    assert [broker.id for broker in first.request.live_brokers] == [0, 1, 2]
    epochs = {e.broker: e.request.broker_epoch for e in cluster.notes.sent}
    assert epochs == {
        broker: cluster.server.get(paths.broker(broker))[1].czxid for broker in range(3)
    }


def test_the_next_controller_tells_everything_again_in_the_same_epochs(replicated):
    before = {key: replicated.led(key) for key in (T0, T1, T2)}
    replicated.begin()
    assert {key: replicated.led(key) for key in before} == before
    assert replicated.notes.decided(T2).keys() == {2, 0}
    assert told(replicated.notes.decided(T0)) == dict.fromkeys(range(3), (0, 0, [0, 1, 2]))
    assert not replicated.notes.decided(T0)[0].is_new
    kinds = [kind for broker, kind in replicated.notes.kinds() if broker == 1]
    assert kinds.index("UPDATE_METADATA") < kinds.index("LEADER_AND_ISR")
    assert replicated.notes.decided(T0)[0].controller_epoch == 1, "of the one that decided"
    assert replicated.notes.of(ApiKey.LEADER_AND_ISR)[0].request.controller_epoch == 2


def test_a_controller_that_comes_after_a_death_elects_and_shrinks(replicated):
    replicated.kill(1)
    replicated.signals.clear()
    replicated.begin()
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert replicated.led(T2) == (2, 0, [2, 0])


def test_what_was_led_by_the_dead_is_elected_before_the_rest_is_read(replicated, monkeypatch):
    replicated.kill(1)
    replicated.signals.clear()
    replicated.led_by_others = [T1, ("gone", 0), T1]
    replicated.forget()
    read, sent_before = replicated.states.read, []

    def noted(keys):
        wanted = list(keys)
        sent_before.append((wanted, len(replicated.notes.of(ApiKey.LEADER_AND_ISR))))
        return read(wanted)

    monkeypatch.setattr(replicated.states, "read", noted)
    replicated.begin()
    (first, unsent), (rest, sent) = sent_before[:2]
    assert (first, unsent) == ([T1], 0)
    assert (rest, sent) == ([T0, T2], 2), "both live replicas have their new leader by then"
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert told(replicated.notes.decided(T1)) == dict.fromkeys((2, 0), (2, 1, [2, 0]))


@pytest.mark.parametrize("taken_over", [True, False])
def test_many_leaders_are_sent_part_by_part(replicated, monkeypatch, taken_over):
    monkeypatch.setattr(term, "DECIDED_AT_ONCE", 1)
    monkeypatch.setattr(broker_changes, "DECIDED_AT_ONCE", 1)
    replicated.topic("u", [1, 0], [1, 2])
    replicated.settle()
    replicated.forget()
    replicated.kill(1)
    if taken_over:
        replicated.signals.clear()
        replicated.begin()
    else:
        replicated.settle()
    led = [set(each.states()) for each in replicated.notes.of(ApiKey.LEADER_AND_ISR, 0)]
    assert led[:2] == [{T1}, {("u", 0)}], "each goes out before the next is decided"
    assert [replicated.led(key)[0] for key in (T1, ("u", 0), ("u", 1))] == [2, 0, 2]
    first = replicated.notes.sent[0]
    assert first.request.api_key == ApiKey.UPDATE_METADATA
    assert [broker.id for broker in first.request.live_brokers] == [0, 2]


def test_what_was_heard_before_an_election_decides_nothing(replicated):
    replicated.led_by_others = [T0, T1, T2]
    before = {key: replicated.led(key) for key in (T0, T1, T2)}
    replicated.begin()
    assert {key: replicated.led(key) for key in before} == before
    assert replicated.notes.decided(T2).keys() == {2, 0}


def test_a_deposed_controller_changes_nothing_and_says_nothing(replicated):
    replicated.session.set(paths.CONTROLLER_EPOCH, b"9")
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()
    assert replicated.led(T1) == (1, 0, [1, 2, 0])
    assert not replicated.notes.of(ApiKey.LEADER_AND_ISR)


def test_a_broker_that_knows_a_later_controller_ends_the_term(replicated):
    replicated.forget()
    replicated.topic("u", [0])
    replicated.term.work(replicated.signals)
    answer = replicated.notes.of(ApiKey.LEADER_AND_ISR)[0]
    response = type("Response", (), {"error_code": 11, "partitions": []})()
    with pytest.raises(ControllerMoved):
        answer.answered(0, response)


# -- topics


def test_a_new_topic_is_led_by_its_first_replicas(cluster):
    cluster.forget()
    cluster.topic("t", [0, 1, 2], [2, 0])
    cluster.settle()
    assert cluster.led(T0) == (0, 0, [0, 1, 2])
    assert cluster.led(T1) == (2, 0, [2, 0])
    assert cluster.notes.decided(T0).keys() == {0, 1, 2}
    assert cluster.notes.decided(T1).keys() == {0, 2}
    assert all(state.is_new for state in cluster.notes.decided(T0).values())
    assert cluster.notes.metadata(T0).keys() == cluster.notes.metadata(T1).keys() == {0, 1, 2}
    assert cluster.notes.decided(T0)[1].zk_version == cluster.state(T0).zk_version
    leaders = cluster.notes.of(ApiKey.LEADER_AND_ISR, 0)[0].request.live_leaders
    assert [(each.id, each.port) for each in leaders] == [(0, 9000), (2, 9002)]


def test_a_new_topic_without_a_live_replica_waits_for_one(cluster):
    cluster.topic("t", [7, 1], [7])
    cluster.settle()
    assert cluster.led(T0) == (1, 0, [1])
    assert T1 not in cluster.states.read([T1])
    cluster.start(7)
    cluster.settle()
    assert cluster.led(T1) == (7, 0, [7])


def test_partitions_are_added(replicated):
    topics.add_partitions(replicated.session, "t", {3: [1, 0]})
    replicated.settle()
    assert replicated.led(("t", 3)) == (1, 0, [1, 0])
    assert replicated.notes.decided(T0) == {}


def test_an_assignment_changed_by_hand_moves_nothing(replicated):
    replicated.session.set(paths.topic("t"), topics.encode_assignment({0: [2], 1: [1], 3: [0]}))
    replicated.settle()
    assert replicated.term.context.replicas(T0) == (0, 1, 2)
    assert replicated.led(("t", 3)) == (0, 0, [0])


# -- brokers that go


def test_the_death_of_a_leader(replicated):
    replicated.kill(1)
    replicated.settle()
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert replicated.led(T2) == (2, 0, [2, 0]), "it had no replica there"
    assert told(replicated.notes.decided(T1)) == {2: (2, 1, [2, 0]), 0: (2, 1, [2, 0])}
    metadata = replicated.notes.metadata(T1)
    assert metadata.keys() == {0, 2}
    assert metadata[0].offline_replicas == [1]
    live = replicated.notes.of(ApiKey.UPDATE_METADATA)[-1].request.live_brokers
    assert [broker.id for broker in live] == [0, 2]


def test_a_broker_that_dies_just_after_it_joined_an_isr_leaves_it(replicated):
    replicated.isr_changed(T2, 2)
    note_isr_changes(replicated.session, {T2})
    replicated.settle()
    replicated.isr_changed(T2, 2, 0)  # of which there is no note yet
    replicated.forget()
    replicated.kill(0)
    replicated.settle()
    assert replicated.led(T2) == (2, 1, [2]), "its leader would wait for it"
    assert replicated.notes.decided(T2).keys() == {2}


def test_a_leader_that_dies_just_after_its_isr_grew_is_replaced(replicated):
    replicated.isr_changed(T0, 0)
    note_isr_changes(replicated.session, {T0})
    replicated.settle()
    replicated.isr_changed(T0, 0, 2)  # of which there is no note yet
    replicated.kill(0)
    replicated.settle()
    assert replicated.led(T0) == (2, 1, [2])


def test_a_leader_whose_directory_fails_just_after_its_isr_grew_is_replaced(replicated):
    replicated.isr_changed(T0, 0)
    note_isr_changes(replicated.session, {T0})
    replicated.settle()
    replicated.isr_changed(T0, 0, 2)
    replicated.notes.errors = {(0, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 0)
    replicated.settle()
    assert replicated.led(T0) == (2, 1, [2])


def test_a_follower_that_enters_an_isr_when_its_directory_has_failed_leaves_it_again(replicated):
    replicated.isr_changed(T0, 0)
    note_isr_changes(replicated.session, {T0})
    replicated.notes.errors = {(2, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 2)
    replicated.settle()
    assert replicated.led(T0) == (0, 0, [0])
    replicated.isr_changed(T0, 0, 2, 1)  # the leader did not know it
    note_isr_changes(replicated.session, {T0})
    replicated.settle()
    assert replicated.led(T0) == (0, 1, [0, 1])
    assert replicated.notes.decided(T0)[0].isr == [0, 1]


def test_a_follower_that_enters_an_isr_when_its_broker_is_gone_leaves_it_again(replicated):
    replicated.kill(2)
    replicated.settle()
    leader, epoch, isr = replicated.led(T0)
    assert (leader, isr) == (0, [0, 1])
    replicated.isr_changed(T0, 0, 1, 2)
    note_isr_changes(replicated.session, {T0})
    replicated.settle()
    assert replicated.led(T0) == (0, epoch + 1, [0, 1])


def test_the_death_of_a_broker_without_replicas_updates_metadata(cluster):
    cluster.forget()
    cluster.kill(2)
    cluster.settle()
    assert [broker for broker, _ in cluster.notes.kinds()] == [0, 1]
    live = cluster.notes.sent[0].request.live_brokers
    assert [broker.id for broker in live] == [0, 1]


def test_the_last_replica_in_sync_stays_in_the_isr_without_a_leader(replicated):
    replicated.isr_changed(T2, 2)
    replicated.kill(2)
    replicated.settle()
    assert replicated.led(T2) == (-1, 1, [2])
    assert replicated.notes.metadata(T2)[0].leader == -1
    assert replicated.notes.decided(T2)[0].leader == -1
    replicated.start(2)
    replicated.settle()
    assert replicated.led(T2) == (2, 2, [2])


def test_all_replicas_die_and_one_that_was_in_sync_returns(replicated):
    replicated.kill(1, 2)
    replicated.settle()
    replicated.kill(0)
    replicated.settle()
    assert replicated.led(T0)[0] == -1
    assert replicated.led(T0)[2] == [0]
    replicated.start(1)
    replicated.settle()
    assert replicated.led(T0)[0] == -1, "it was not in sync"
    replicated.start(0)
    replicated.settle()
    assert replicated.led(T0)[0] == 0


def test_a_leader_that_lost_its_log_and_comes_first_leaves_the_isr_to_the_others(replicated):
    replicated.kill(0, 1, 2)
    replicated.states.leave_isrs(0, [T0, T1, T2])
    replicated.signals.clear()
    replicated.start(0)
    replicated.begin()
    assert replicated.led(T0) == (-1, 1, [1, 2]), "who is away has what was acknowledged"
    assert (replicated.led(T1)[2], replicated.led(T2)[2]) == ([1, 2], [2])
    replicated.start(2)
    replicated.settle()
    assert [replicated.led(key)[0] for key in (T0, T1, T2)] == [2, 2, 2]
    assert replicated.counts.unclean == 0


def test_a_leader_that_lost_its_log_is_replaced_before_it_registers(replicated):
    # Its earlier registration is still there.
    replicated.states.leave_isrs(0, [T0, T1, T2])
    note_isr_changes(replicated.session, [T0, T1, T2])
    replicated.settle()
    assert replicated.led(T0) == (1, 2, [1, 2])
    assert replicated.notes.decided(T0)[1].leader == 1
    assert replicated.notes.metadata(T0)[2].leader == 1


def test_an_unclean_election_by_hand_finds_others_than_the_last_one_that_lost_its_log(cluster):
    cluster.topic("t", [0, 1, 2])
    cluster.settle()
    cluster.isr_changed(T0, 0)
    cluster.notes.errors[0, T0] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.kill(0)
    cluster.settle()
    cluster.start(0)
    cluster.settle()
    cluster.begin()
    assert cluster.led(T0)[::2] == (-1, [0]), "nobody else is known to have what it had"
    topics.set_topic_config(cluster.session, "t", {"unclean.leader.election.enable": "true"})
    cluster.settle()
    assert cluster.led(T0)[::2] == (1, [1])


def test_an_unclean_election_is_off_unless_asked_for_and_counted(cluster):
    cluster.topic("t", [2, 0], [2, 0])
    cluster.topic("u", [2, 0], unclean_leader_election_enable="true")
    cluster.settle()
    for key in (T0, T1, ("u", 0)):
        cluster.isr_changed(key, 2)
    cluster.kill(2)
    cluster.settle()
    assert cluster.led(T0) == (-1, 1, [2])
    assert cluster.led(("u", 0)) == (0, 1, [0])
    assert cluster.counts.unclean == 1
    topics.set_topic_config(cluster.session, "t", {"unclean.leader.election.enable": "true"})
    cluster.settle()
    assert cluster.led(T0) == (0, 2, [0])
    assert cluster.counts.unclean == 3


def test_unclean_elections_may_be_on_for_all():
    cluster = ControlledCluster(unclean_default=True)
    cluster.start(0, 1)
    cluster.topic("t", [1, 0])
    cluster.begin()
    cluster.isr_changed(T0, 1)
    cluster.kill(1)
    cluster.settle()
    assert cluster.led(T0) == (0, 1, [0])


# -- brokers that come


def test_a_returning_broker_gets_all_metadata_and_then_leader_and_isr(replicated):
    replicated.kill(1)
    replicated.settle()
    replicated.forget()
    replicated.start(1)
    replicated.settle()
    kinds = [kind for broker, kind in replicated.notes.kinds() if broker == 1]
    assert kinds == ["UPDATE_METADATA", "LEADER_AND_ISR"]
    assert replicated.notes.metadata(T2)[1].leader == 2, "also what it has no replica of"
    assert told(replicated.notes.decided(T0)) == {1: (0, 1, [0, 2])}
    assert not replicated.notes.decided(T0)[1].is_new
    first = replicated.notes.of(ApiKey.UPDATE_METADATA, 0)[0].request
    assert [broker.id for broker in first.live_brokers] == [0, 1, 2]
    assert replicated.led(T0) == (0, 1, [0, 2]), "it joins the ISR by fetching"


def test_a_broker_that_bounced_unseen_fails_and_joins(replicated):
    before = replicated.term.context.brokers[1].epoch
    replicated.kill(1)
    replicated.start(1)
    replicated.settle()
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.term.context.brokers[1].epoch > before
    requests = replicated.notes.of(ApiKey.LEADER_AND_ISR, 1)
    assert {each.request.broker_epoch for each in requests} == {
        replicated.term.context.brokers[1].epoch
    }


def test_a_broker_that_bounced_and_has_the_only_replica_in_sync_leads_in_the_next_epoch(replicated):
    replicated.topic("one", [1])
    replicated.settle()
    replicated.isr_changed(T1, 1)
    replicated.kill(1)
    replicated.start(1)
    replicated.forget()
    replicated.settle()
    assert replicated.led(("one", 0)) == (1, 1, [1]), "one decision for one return"
    assert replicated.led(T1) == (1, 1, [1])
    assert all(
        state.leader == 1
        for each in replicated.notes.of(ApiKey.LEADER_AND_ISR, 1)
        for key, state in each.states().items()
        if key in (("one", 0), T1)
    )


def test_a_broker_that_returns_hears_of_no_decision_that_the_next_one_takes_back(replicated):
    replicated.topic("one", [1])
    replicated.settle()
    replicated.kill(1)
    replicated.settle()
    replicated.forget()
    replicated.start(1)
    replicated.settle()
    told = [
        (state.leader, state.leader_epoch)
        for each in replicated.notes.of(ApiKey.LEADER_AND_ISR, 1)
        for key, state in each.states().items()
        if key == ("one", 0)
    ]
    assert told == [(1, 2)], "not that nobody leads it"
    replicated.kill(1)
    replicated.settle()
    replicated.start(1)
    replicated.forget()
    replicated.begin()
    told = [
        (state.leader, state.leader_epoch)
        for each in replicated.notes.of(ApiKey.LEADER_AND_ISR, 1)
        for key, state in each.states().items()
        if key == ("one", 0)
    ]
    assert told == [(1, 4)], "nor by the next controller"


def test_a_controller_whose_session_is_over_decides_nothing(replicated):
    replicated.term._partitions.elected = lambda: False
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()
    assert replicated.led(T1) == (1, 0, [1, 2, 0])


def test_a_broker_that_bounced_between_two_controllers_is_trusted_less_than_those_that_stayed(
    replicated,
):
    replicated.kill(1)
    replicated.start(1)
    replicated.forget()
    replicated.begin()
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert told(replicated.notes.decided(T1)) == dict.fromkeys(range(3), (2, 1, [2, 0]))
    replicated.begin()
    assert replicated.led(T1) == (2, 1, [2, 0]), "that was seen to"


def test_brokers_that_all_bounced_between_two_controllers_begin_new_epochs(replicated):
    replicated.kill(0, 1, 2)
    replicated.start(0, 1, 2)
    replicated.begin()
    assert replicated.led(T1) == (1, 1, [1, 2, 0])


def test_a_conflict_is_read_and_decided_again(replicated):
    replicated.isr_changed(T1, 1, 0)  # the controller has not heard of it
    replicated.kill(1)
    replicated.settle()
    assert replicated.led(T1) == (0, 1, [0])


def only_the_leader_of_t1_is_known_to_be_in_sync(cluster):
    """It let the others in again, and the controller has not heard of that."""
    cluster.isr_changed(T1, 1)
    note_isr_changes(cluster.session, [T1])
    cluster.settle()
    cluster.isr_changed(T1, 1, 0, 2)


def test_a_leader_dies_soon_after_it_let_replicas_in(replicated):
    only_the_leader_of_t1_is_known_to_be_in_sync(replicated)
    replicated.forget()
    replicated.kill(1)
    replicated.settle()
    assert replicated.led(T1) == (2, 1, [0, 2])
    assert replicated.notes.decided(T1).keys() == {0, 2}


def test_a_leader_stops_soon_after_it_let_replicas_in(replicated):
    only_the_leader_of_t1_is_known_to_be_in_sync(replicated)
    assert replicated.term.moves.controlled_shutdown(1, -1) == []
    assert replicated.led(T1) == (2, 1, [0, 2])


def test_a_preferred_leader_is_elected_soon_after_it_was_let_in(replicated):
    replicated.kill(1)
    replicated.settle()
    replicated.start(1)
    replicated.settle()
    replicated.isr_changed(T1, 2, 0, 1)  # the controller has not heard of it
    replicated.term.moves.rebalance(10)
    assert replicated.led(T1) == (1, 2, [2, 0, 1])


def test_a_state_of_a_later_controller_ends_the_term(replicated):
    state = replicated.state(T1)
    later = LeaderAndIsr(2, 4, (2,), 99, state.zk_version)
    replicated.states.write({T1: later}, -1)
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()


def overtake(cluster, monkeypatch, leader_epoch):
    """Have a later controller give T0 one replica more after the term has read assignments."""
    read = cluster.states.read

    def read_late(keys):
        monkeypatch.undo()
        version = cluster.session.set(paths.CONTROLLER_EPOCH, b"9").version
        topics.replace_assignment(cluster.session, "t", {0: [0, 1, 2]}, version)
        known = read([T0]).get(T0, LeaderAndIsr(0, 0, ()))
        later = LeaderAndIsr(0, leader_epoch, (0, 1), 9, known.zk_version)
        assert cluster.states.write({T0: later}, version)
        return read(keys)

    monkeypatch.setattr(cluster.states, "read", read_late)


def test_a_term_that_begins_late_does_not_send_the_decisions_of_the_next_one(cluster, monkeypatch):
    cluster.topic("t", [0, 1])
    cluster.settle()
    cluster.forget()
    overtake(cluster, monkeypatch, leader_epoch=1)
    with pytest.raises(ControllerMoved):
        cluster.begin()
    # With the replicas of before: the leader would take these for all of its leader epoch.
    assert not cluster.notes.of(ApiKey.LEADER_AND_ISR)


def test_a_new_topic_that_a_later_controller_decided_ends_the_term(cluster, monkeypatch):
    cluster.forget()
    cluster.topic("t", [0, 1])
    overtake(cluster, monkeypatch, leader_epoch=0)
    with pytest.raises(ControllerMoved):
        cluster.settle()
    assert not cluster.notes.of(ApiKey.LEADER_AND_ISR)


# -- what brokers note


def test_isr_changes_reach_every_broker_and_their_notes_are_removed(replicated):
    replicated.isr_changed(T0, 0, 1)
    note_isr_changes(replicated.session, [T0, ("gone", 0)])
    replicated.settle()
    assert {b: s.isr for b, s in replicated.notes.metadata(T0).items()} == {
        0: [0, 1], 1: [0, 1], 2: [0, 1],
    }  # fmt: skip
    assert not replicated.notes.of(ApiKey.LEADER_AND_ISR)
    assert replicated.session.children(paths.ISR_CHANGES) == []


def test_replicas_in_a_failed_directory_lead_no_longer(replicated):
    replicated.notes.errors = {(0, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 0)
    replicated.settle()
    assert replicated.led(T0) == (1, 1, [1, 2])
    assert replicated.led(T2) == (2, 0, [2, 0]), "its other directory lives"
    assert replicated.notes.metadata(T0)[2].offline_replicas == [0]
    assert replicated.session.children(paths.LOG_DIR_EVENTS) == []
    replicated.notes.errors = {}
    replicated.kill(0)
    replicated.settle()
    replicated.start(0)
    replicated.settle()
    assert replicated.notes.metadata(T0)[2].offline_replicas == []


# -- what brokers and operators ask


def test_a_controlled_shutdown_moves_leaders_and_stops_followers(replicated):
    replicated.topic("one", [1])
    replicated.settle()
    replicated.forget()
    epoch = replicated.term.context.brokers[1].epoch
    assert replicated.term.moves.controlled_shutdown(1, epoch) == []
    assert replicated.led(T1) == (2, 1, [2, 0])
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert replicated.led(("one", 0)) == (1, 0, [1]), "nobody else has it"
    assert told(replicated.notes.decided(T1)) == dict.fromkeys(range(3), (2, 1, [2, 0]))
    assert replicated.notes.stopped(1, delete=False) == {T0, T1}
    assert replicated.notes.decided(T0).keys() == {0, 2}
    assert replicated.notes.metadata(T0)[2].offline_replicas == [1]
    replicated.settle()
    replicated.kill(1)
    replicated.settle()
    assert replicated.led(T0) == (0, 1, [0, 2])
    assert replicated.led(("one", 0)) == (-1, 1, [1])


@pytest.mark.parametrize("event", ["death", "shutdown", "preferred", "follower's death"])
def test_what_leaders_wrote_and_did_not_tell_yet_counts(replicated, event):
    replicated.kill(2)
    replicated.settle()
    replicated.start(2)
    replicated.settle()
    replicated.isr_changed(T1, 1)
    note_isr_changes(replicated.session, [T1])
    replicated.settle()
    replicated.isr_changed(T1, 1, 2, 0)
    replicated.isr_changed(T2, 0, 2)
    if event == "death":
        replicated.kill(1)
        replicated.settle()
        assert replicated.led(T1) == (2, 2, [2, 0]), "it does not stay without a leader"
    elif event == "shutdown":
        epoch = replicated.term.context.brokers[1].epoch
        assert replicated.term.moves.controlled_shutdown(1, epoch) == []
        assert replicated.led(T1) == (2, 2, [2, 0])
    elif event == "preferred":
        assert replicated.led(T2)[0] == 0
        assert replicated.term.moves.elect_preferred([T2]) == {T2: ErrorCode.NONE}
        assert replicated.led(T2) == (2, 2, [0, 2])
    else:
        replicated.kill(0)
        replicated.settle()
        assert replicated.led(T1) == (1, 2, [1, 2]), "acks=all does not wait for the dead"


def test_a_broker_that_shuts_down_is_elected_no_more(replicated):
    replicated.term.moves.controlled_shutdown(1, -1)
    replicated.kill(0)
    replicated.settle()
    assert replicated.led(T0)[0] == 2


def test_the_last_replica_in_sync_keeps_its_partition_at_a_shutdown(replicated):
    replicated.isr_changed(T2, 2)
    note_isr_changes(replicated.session, [T2])
    replicated.settle()
    assert replicated.term.moves.controlled_shutdown(2, -1) == [T2]
    assert replicated.led(T2) == (2, 0, [2])


def test_shutdowns_of_strangers_and_of_the_past_are_refused(replicated):
    with pytest.raises(ProtocolError) as unknown:
        replicated.term.moves.controlled_shutdown(9, -1)
    assert unknown.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    with pytest.raises(ProtocolError) as stale:
        replicated.term.moves.controlled_shutdown(1, replicated.term.context.brokers[1].epoch - 1)
    assert stale.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_new_registration_ends_a_controlled_shutdown(replicated):
    replicated.term.moves.controlled_shutdown(1, -1)
    assert not replicated.term.context.may_lead(1)
    replicated.kill(1)
    replicated.start(1)
    replicated.settle()
    assert replicated.term.context.may_lead(1)


def bounced(cluster):
    """Broker 1 has been away and is back in every ISR, and leads nothing."""
    cluster.kill(1)
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    cluster.isr_changed(T1, 2, 0, 1)
    note_isr_changes(cluster.session, [T1])
    cluster.settle()
    cluster.forget()


def test_preferred_leaders_by_the_tools_node(replicated):
    bounced(replicated)
    partitions = [{"topic": "t", "partition": n} for n in (0, 1, 9)]
    replicated.ask(paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": partitions})
    replicated.settle()
    assert replicated.led(T1) == (1, 2, [2, 0, 1])
    assert replicated.notes.decided(T1).keys() == {0, 1, 2}
    assert not replicated.notes.decided(T0), "it is led as it should be"
    assert not replicated.exists(paths.PREFERRED_REPLICA_ELECTION)


@pytest.mark.parametrize("by_node", [True, False])
def test_a_preferred_leader_that_joined_the_isr_of_late_is_elected(replicated, by_node):
    replicated.kill(0)
    replicated.settle()
    replicated.start(0)
    replicated.settle()
    replicated.isr_changed(T0, 1, 2, 0)  # of which there is no note yet
    if by_node:
        wanted = [{"topic": "t", "partition": 0}]
        replicated.ask(paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": wanted})
        replicated.settle()
    else:
        assert replicated.term.moves.elect_preferred([T0]) == {T0: ErrorCode.NONE}
    assert replicated.led(T0) == (0, 2, [1, 2, 0])


def test_a_shutdown_moves_leaders_to_a_replica_that_joined_the_isr_of_late(replicated):
    replicated.isr_changed(T0, 0)
    note_isr_changes(replicated.session, {T0})
    replicated.settle()
    replicated.isr_changed(T0, 0, 2)  # of which there is no note yet
    assert replicated.term.moves.controlled_shutdown(0, -1) == []
    assert replicated.led(T0) == (2, 1, [2])


def test_preferred_leaders_by_request(replicated):
    bounced(replicated)
    replicated.isr_changed(T2, 2)
    assert replicated.term.moves.elect_preferred([T1, ("x", 0)]) == {
        T1: ErrorCode.NONE,
        ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    replicated.kill(1)
    replicated.settle()
    answers = replicated.term.moves.elect_preferred(None)
    assert answers[T1] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert answers[T0] == ErrorCode.NONE


def test_preferred_leaders_by_themselves_where_they_lead_too_few(replicated):
    bounced(replicated)
    replicated.term.moves.rebalance(100)
    assert replicated.led(T1)[0] == 2
    replicated.term.moves.rebalance(10)
    assert replicated.led(T1)[0] == 1


def test_a_broker_gets_everything_after_its_queue_was_dropped(replicated):
    replicated.forget()
    replicated.term.brokers.send_everything(1)
    assert {broker for broker, _ in replicated.notes.kinds()} == {1}
    assert replicated.notes.decided(T0).keys() == replicated.notes.metadata(T2).keys() == {1}
    replicated.term.brokers.send_everything(9)


# -- trees from elsewhere


def test_the_isr_of_a_genuine_tree_is_believed():
    cluster = ControlledCluster()
    cluster.topic("t", [0, 1])
    cluster.server.create(
        f"{paths.topic('t')}/partitions/0/state",
        b'{"controller_epoch":8,"leader":1,"version":1,"leader_epoch":12,"isr":[1]}',
        parents=True,
    )
    cluster.start(0)
    cluster.begin()
    assert cluster.led(T0) == (-1, 13, [1]), "broker 0 lacks messages"
    cluster.start(1)
    cluster.settle()
    assert cluster.led(T0) == (1, 14, [1])


def test_the_tree_of_the_release_before_is_led_where_its_log_is():
    cluster = ControlledCluster()
    cluster.topic("t", [1, 0])
    cluster.server.create(
        f"{paths.topic('t')}/partitions/0", b'{"version":1,"leader_epoch":3}', parents=True
    )
    cluster.start(0)
    cluster.begin()
    assert cluster.state(T0).leader == -1
    cluster.start(1)
    cluster.settle()
    assert cluster.led(T0) == (1, 4, [1])


def test_everything_holds_for_many_partitions_at_once(cluster):
    cluster.topic("t", *([n % 3, (n + 1) % 3] for n in range(2000)))
    flights = cluster.session.flights
    cluster.settle()
    assert cluster.session.flights - flights < 30
    cluster.kill(1)
    cluster.settle()
    assert cluster.session.flights - flights < 60
    assert all(state.leader in (0, 2) for state in cluster.term.context.states.values())


# -- what cannot be read


def test_a_state_that_cannot_be_read_stops_neither_the_controller_nor_the_others(cluster):
    node = paths.partition(*T0)
    if cluster.states.form is StateForm.PERSISTENT:
        node = paths.partition_state(*T0)
    cluster.topic("t", [0, 1, 2], [1, 2, 0])
    cluster.session.create(node, b"garbage", parents=True)
    cluster.settle()
    assert cluster.led(T1) == (1, 0, [1, 2, 0])
    assert cluster.session.get(node)[0] == b"garbage"


# -- brokers that refuse


@pytest.mark.parametrize("code", [-1, 77])
def test_a_refused_decision_is_sent_again_to_the_same_registration(replicated, code):
    replicated.notes.refusals = {1: code}
    replicated.topic("u", [1, 0])
    replicated.settle()
    assert replicated.term.answers.refused == {1}
    replicated.notes.refusals = {}
    replicated.forget()
    replicated.term.resend_refused()
    replicated.settle()
    assert replicated.notes.decided(("u", 0)).keys() == {1}
    assert replicated.notes.metadata(T2).keys() == {1}
    assert replicated.term.answers.refused == set()


@pytest.mark.parametrize("code", [-1, 77])
def test_a_refused_decision_is_sent_to_the_new_registration(replicated, code):
    replicated.notes.refusals = {1: code}
    replicated.topic("u", [1, 0])
    replicated.term.work(replicated.signals)
    replicated.signals.clear()
    replicated.kill(1)
    replicated.start(1)
    replicated.signals.clear()  # ZooKeeper has not told of it yet
    replicated.forget()
    replicated.notes.answer()
    replicated.notes.refusals = {}
    replicated.settle()
    requests = replicated.notes.of(ApiKey.LEADER_AND_ISR, 1)
    registered = replicated.server.get(paths.broker(1))[1].czxid
    assert {each.request.broker_epoch for each in requests} == {registered}
    assert 1 in replicated.notes.decided(("u", 0))
    assert replicated.term.answers.refused == set(), "all was told when it joined"


@pytest.mark.parametrize("code", [-1, 77])
def test_refused_metadata_is_sent_again(replicated, code):
    replicated.notes.metadata_refusals = {2: code}
    replicated.topic("u", [1, 0])
    replicated.settle()
    assert replicated.term.answers.refused == {2}
    replicated.notes.metadata_refusals = {}
    replicated.forget()
    replicated.term.resend_refused()
    replicated.settle()
    assert replicated.notes.metadata(("u", 0)).keys() == {2}
    assert replicated.term.answers.refused == set()


def test_a_broker_that_refuses_metadata_of_a_deposed_controller_ends_the_term(replicated):
    replicated.notes.metadata_refusals = {2: 11}
    replicated.topic("u", [1, 0])
    with pytest.raises(ControllerMoved):
        replicated.settle()


def test_a_partition_without_leader_is_elected_when_the_default_allows_it(cluster):
    cluster.topic("t", [0, 1])
    cluster.topic("strict", [0, 1], unclean_leader_election_enable="false")
    cluster.settle()
    cluster.isr_changed(T0, 0)
    cluster.isr_changed(("strict", 0), 0)
    cluster.settle()
    cluster.kill(0)
    cluster.settle()
    assert cluster.led(T0)[0] == -1
    cluster.term.set_unclean_default(True)
    assert cluster.led(T0)[0] == 1
    assert cluster.led(("strict", 0))[0] == -1
    cluster.term.set_unclean_default(False)
    assert cluster.led(T0)[0] == 1


def test_a_malformed_registration_counts_as_no_broker(replicated):
    session = replicated.sessions[7] = InstantSession(replicated.server)
    session.create(paths.broker(7), b'{"host":"h","port":1,"endpoints":["x"]}', ephemeral=True)
    replicated.kill(1)
    replicated.settle()
    assert replicated.led(T1) == (2, 1, [2, 0]), "the controller works on"
    assert sorted(replicated.term.context.brokers) == [0, 2]


def test_a_state_in_the_last_leader_epoch_is_unreadable(replicated):
    path = replicated.states.watched(T1)
    state = replicated.json(path) | {"leader_epoch": 2**31 - 1}
    replicated.session.set(path, json.dumps(state).encode())
    replicated.kill(1)
    replicated.begin()
    assert replicated.json(path)["leader_epoch"] == 2**31 - 1, "no epoch comes after it"
    assert replicated.led(T0)[0] == 0
