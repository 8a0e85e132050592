"""Events of a cluster: the states that the controller stores, and its requests in their order."""

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
    cluster.elect_controller()
    return cluster


@pytest.fixture
def replicated(cluster):
    cluster.add_topic("t", [0, 1, 2], [1, 2, 0], [2, 0])
    cluster.clear_sent()
    return cluster


def leader_epoch_isr(states):
    return {broker: (s.leader, s.leader_epoch, s.isr) for broker, s in states.items()}


# -- election of a controller


def test_first_controller_sends_live_brokers_to_each_broker(cluster):
    first = cluster.channels.sent[0]
    assert first.request.api_key == ApiKey.UPDATE_METADATA
    assert {each.broker for each in cluster.channels.sent} == {0, 1, 2}
    assert [broker.id for broker in first.request.live_brokers] == [0, 1, 2]
    epochs = {e.broker: e.request.broker_epoch for e in cluster.channels.sent}
    assert epochs == {
        broker: cluster.server.get(paths.broker(broker))[1].czxid for broker in range(3)
    }


def test_next_controller_resends_all_states_unchanged(replicated):
    before = {key: replicated.stored(key) for key in (T0, T1, T2)}
    replicated.elect_controller()
    assert {key: replicated.stored(key) for key in before} == before
    assert replicated.channels.leader_and_isr(T2).keys() == {2, 0}
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T0)) == dict.fromkeys(
        range(3), (0, 0, [0, 1, 2])
    )
    assert not replicated.channels.leader_and_isr(T0)[0].is_new
    kinds = [kind for broker, kind in replicated.channels.kinds() if broker == 1]
    assert kinds.index("UPDATE_METADATA") < kinds.index("LEADER_AND_ISR")
    assert replicated.channels.leader_and_isr(T0)[0].controller_epoch == 1, (
        "the epoch of the controller that decided"
    )
    assert replicated.channels.requests(ApiKey.LEADER_AND_ISR)[0].request.controller_epoch == 2


def test_controller_elected_after_broker_failure_elects_leaders(replicated):
    replicated.kill(1)
    replicated.signals.clear()
    replicated.elect_controller()
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert replicated.stored(T2) == (2, 0, [2, 0])


def test_leaders_of_dead_brokers_are_elected_before_other_states_are_read(replicated, monkeypatch):
    replicated.kill(1)
    replicated.signals.clear()
    replicated.led_by_others = [T1, ("gone", 0), T1]
    replicated.clear_sent()
    read, sent_before = replicated.states.read, []

    def noted(keys):
        wanted = list(keys)
        sent_before.append((wanted, len(replicated.channels.requests(ApiKey.LEADER_AND_ISR))))
        return read(wanted)

    monkeypatch.setattr(replicated.states, "read", noted)
    replicated.elect_controller()
    (first, unsent), (rest, sent) = sent_before[:2]
    assert (first, unsent) == ([T1], 0)
    assert (rest, sent) == ([T0, T2], 2), (
        "both live replicas have received their new leader by then"
    )
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T1)) == dict.fromkeys(
        (2, 0), (2, 1, [2, 0])
    )


@pytest.mark.parametrize("by_new_controller", [True, False])
def test_many_elections_are_sent_in_parts(replicated, monkeypatch, by_new_controller):
    monkeypatch.setattr(term, "DECIDED_AT_ONCE", 1)
    monkeypatch.setattr(broker_changes, "DECIDED_AT_ONCE", 1)
    replicated.add_topic("u", [1, 0], [1, 2])
    replicated.clear_sent()
    replicated.kill(1)
    if by_new_controller:
        replicated.signals.clear()
        replicated.elect_controller()
    else:
        replicated.settle()
    led = [set(each.states()) for each in replicated.channels.requests(ApiKey.LEADER_AND_ISR, 0)]
    assert led[:2] == [{T1}, {("u", 0)}], "each request is sent before the next election"
    assert [replicated.stored(key)[0] for key in (T1, ("u", 0), ("u", 1))] == [2, 0, 2]
    first = replicated.channels.sent[0]
    assert first.request.api_key == ApiKey.UPDATE_METADATA
    assert [broker.id for broker in first.request.live_brokers] == [0, 2]


def test_outdated_metadata_elects_no_leader(replicated):
    replicated.led_by_others = [T0, T1, T2]
    before = {key: replicated.stored(key) for key in (T0, T1, T2)}
    replicated.elect_controller()
    assert {key: replicated.stored(key) for key in before} == before
    assert replicated.channels.leader_and_isr(T2).keys() == {2, 0}


def test_deposed_controller_stores_and_sends_nothing(replicated):
    replicated.session.set(paths.CONTROLLER_EPOCH, b"9")
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()
    assert replicated.stored(T1) == (1, 0, [1, 2, 0])
    assert not replicated.channels.requests(ApiKey.LEADER_AND_ISR)


# -- topics


def test_first_replicas_lead_new_topic(cluster):
    cluster.clear_sent()
    cluster.add_topic("t", [0, 1, 2], [2, 0])
    assert cluster.stored(T0) == (0, 0, [0, 1, 2])
    assert cluster.stored(T1) == (2, 0, [2, 0])
    assert cluster.channels.leader_and_isr(T0).keys() == {0, 1, 2}
    assert cluster.channels.leader_and_isr(T1).keys() == {0, 2}
    assert all(state.is_new for state in cluster.channels.leader_and_isr(T0).values())
    assert cluster.channels.metadata(T0).keys() == cluster.channels.metadata(T1).keys() == {0, 1, 2}
    assert cluster.channels.leader_and_isr(T0)[1].zk_version == cluster.state(T0).zk_version
    leaders = cluster.channels.requests(ApiKey.LEADER_AND_ISR, 0)[0].request.live_leaders
    assert [(each.id, each.port) for each in leaders] == [(0, 9000), (2, 9002)]


def test_new_partition_waits_for_live_replica(cluster):
    cluster.add_topic("t", [7, 1], [7])
    assert cluster.stored(T0) == (1, 0, [1])
    assert T1 not in cluster.states.read([T1])
    cluster.join(7)
    assert cluster.stored(T1) == (7, 0, [7])


def test_added_partition_is_led(replicated):
    topics.add_partitions(replicated.session, "t", {3: [1, 0]})
    replicated.settle()
    assert replicated.stored(("t", 3)) == (1, 0, [1, 0])
    assert replicated.channels.leader_and_isr(T0) == {}


def test_manually_edited_assignment_moves_no_replica(replicated):
    replicated.session.set(paths.topic("t"), topics.encode_assignment({0: [2], 1: [1], 3: [0]}))
    replicated.settle()
    assert replicated.term.context.replicas(T0) == (0, 1, 2)
    assert replicated.stored(("t", 3)) == (0, 0, [0])


# -- failed brokers


def test_dead_leader_is_replaced(replicated):
    replicated.lose(1)
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert replicated.stored(T2) == (2, 0, [2, 0]), "broker 1 had no replica of it"
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T1)) == {
        2: (2, 1, [2, 0]),
        0: (2, 1, [2, 0]),
    }
    metadata = replicated.channels.metadata(T1)
    assert metadata.keys() == {0, 2}
    assert metadata[0].offline_replicas == [1]
    live = replicated.channels.requests(ApiKey.UPDATE_METADATA)[-1].request.live_brokers
    assert [broker.id for broker in live] == [0, 2]


def test_dead_broker_leaves_unannounced_isr(replicated):
    replicated.announce_isr(T2, 2)
    replicated.change_isr(T2, 2, 0)  # not announced yet
    replicated.clear_sent()
    replicated.lose(0)
    assert replicated.stored(T2) == (2, 1, [2]), "its leader would wait for the dead broker"
    assert replicated.channels.leader_and_isr(T2).keys() == {2}


def test_leader_in_failed_directory_is_replaced_from_unannounced_isr(replicated):
    replicated.announce_isr(T0, 0)
    replicated.change_isr(T0, 0, 2)
    replicated.channels.errors = {(0, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 0)
    replicated.settle()
    assert replicated.stored(T0) == (2, 1, [2])


def test_replica_in_failed_directory_is_removed_from_announced_isr(replicated):
    replicated.change_isr(T0, 0)
    note_isr_changes(replicated.session, {T0})
    replicated.channels.errors = {(2, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 2)
    replicated.settle()
    assert replicated.stored(T0) == (0, 0, [0])
    replicated.announce_isr(T0, 0, 2, 1)
    assert replicated.stored(T0) == (0, 1, [0, 1])
    assert replicated.channels.leader_and_isr(T0)[0].isr == [0, 1]


def test_replica_of_dead_broker_is_removed_from_announced_isr(replicated):
    replicated.lose(2)
    leader, epoch, isr = replicated.stored(T0)
    assert (leader, isr) == (0, [0, 1])
    replicated.announce_isr(T0, 0, 1, 2)
    assert replicated.stored(T0) == (0, epoch + 1, [0, 1])


def test_death_of_broker_without_replicas_updates_metadata(cluster):
    cluster.clear_sent()
    cluster.lose(2)
    assert [broker for broker, _ in cluster.channels.kinds()] == [0, 1]
    live = cluster.channels.sent[0].request.live_brokers
    assert [broker.id for broker in live] == [0, 1]


def test_last_replica_in_sync_stays_in_isr_without_leader(replicated):
    replicated.change_isr(T2, 2)
    replicated.lose(2)
    assert replicated.stored(T2) == (-1, 1, [2])
    assert replicated.channels.metadata(T2)[0].leader == -1
    assert replicated.channels.leader_and_isr(T2)[0].leader == -1
    replicated.join(2)
    assert replicated.stored(T2) == (2, 2, [2])


def test_partition_without_leader_waits_for_replica_in_sync(replicated):
    replicated.lose(1, 2)
    replicated.lose(0)
    assert replicated.stored(T0)[0] == -1
    assert replicated.stored(T0)[2] == [0]
    replicated.join(1)
    assert replicated.stored(T0)[0] == -1, "broker 1 was not in sync"
    replicated.join(0)
    assert replicated.stored(T0)[0] == 0


def test_first_started_broker_without_logs_is_not_elected(replicated):
    replicated.kill(0, 1, 2)
    replicated.states.leave_isrs(0, [T0, T1, T2])
    replicated.signals.clear()
    replicated.start(0)
    replicated.elect_controller()
    assert replicated.stored(T0) == (-1, 1, [1, 2]), (
        "the dead brokers have the acknowledged records"
    )
    assert (replicated.stored(T1)[2], replicated.stored(T2)[2]) == ([1, 2], [2])
    replicated.join(2)
    assert [replicated.stored(key)[0] for key in (T0, T1, T2)] == [2, 2, 2]
    assert replicated.counts.unclean == 0


def test_leader_that_lost_its_log_is_replaced_before_it_registers(replicated):
    # Its earlier registration is still there.
    replicated.states.leave_isrs(0, [T0, T1, T2])
    note_isr_changes(replicated.session, [T0, T1, T2])
    replicated.settle()
    assert replicated.stored(T0) == (1, 2, [1, 2])
    assert replicated.channels.leader_and_isr(T0)[1].leader == 1
    assert replicated.channels.metadata(T0)[2].leader == 1


def test_unclean_election_skips_replica_that_lost_its_log(cluster):
    cluster.add_topic("t", [0, 1, 2])
    cluster.change_isr(T0, 0)
    cluster.channels.errors[0, T0] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.lose(0)
    cluster.join(0)
    cluster.elect_controller()
    assert cluster.stored(T0)[::2] == (-1, [0]), "no other replica is known to be complete"
    topics.set_topic_config(cluster.session, "t", {"unclean.leader.election.enable": "true"})
    cluster.settle()
    assert cluster.stored(T0)[::2] == (1, [1])


def test_unclean_election_needs_topic_setting_and_is_counted(cluster):
    cluster.create_topic("t", [2, 0], [2, 0])
    cluster.add_topic("u", [2, 0], unclean_leader_election_enable="true")
    for key in (T0, T1, ("u", 0)):
        cluster.change_isr(key, 2)
    cluster.lose(2)
    assert cluster.stored(T0) == (-1, 1, [2])
    assert cluster.stored(("u", 0)) == (0, 1, [0])
    assert cluster.counts.unclean == 1
    topics.set_topic_config(cluster.session, "t", {"unclean.leader.election.enable": "true"})
    cluster.settle()
    assert cluster.stored(T0) == (0, 2, [0])
    assert cluster.counts.unclean == 3


def test_unclean_elections_by_default_setting():
    cluster = ControlledCluster(unclean_default=True)
    cluster.start(0, 1)
    cluster.create_topic("t", [1, 0])
    cluster.elect_controller()
    cluster.change_isr(T0, 1)
    cluster.lose(1)
    assert cluster.stored(T0) == (0, 1, [0])


# -- started brokers


def test_restarted_broker_receives_metadata_before_leader_and_isr(replicated):
    replicated.lose(1)
    replicated.clear_sent()
    replicated.join(1)
    kinds = [kind for broker, kind in replicated.channels.kinds() if broker == 1]
    assert kinds == ["UPDATE_METADATA", "LEADER_AND_ISR"]
    assert replicated.channels.metadata(T2)[1].leader == 2, (
        "also of partitions without a replica there"
    )
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T0)) == {1: (0, 1, [0, 2])}
    assert not replicated.channels.leader_and_isr(T0)[1].is_new
    first = replicated.channels.requests(ApiKey.UPDATE_METADATA, 0)[0].request
    assert [broker.id for broker in first.live_brokers] == [0, 1, 2]
    assert replicated.stored(T0) == (0, 1, [0, 2]), "a replica joins the ISR by fetching"


def test_quickly_restarted_broker_loses_leadership(replicated):
    before = replicated.term.context.brokers[1].epoch
    replicated.kill(1)
    replicated.join(1)
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.term.context.brokers[1].epoch > before
    requests = replicated.channels.requests(ApiKey.LEADER_AND_ISR, 1)
    assert {each.request.broker_epoch for each in requests} == {
        replicated.term.context.brokers[1].epoch
    }


def test_quickly_restarted_last_replica_leads_in_next_epoch(replicated):
    replicated.add_topic("one", [1])
    replicated.change_isr(T1, 1)
    replicated.kill(1)
    replicated.start(1)
    replicated.clear_sent()
    replicated.settle()
    assert replicated.stored(("one", 0)) == (1, 1, [1]), "one restart, one election"
    assert replicated.stored(T1) == (1, 1, [1])
    assert all(
        state.leader == 1
        for each in replicated.channels.requests(ApiKey.LEADER_AND_ISR, 1)
        for key, state in each.states().items()
        if key in (("one", 0), T1)
    )


def test_restarted_broker_receives_only_final_state(replicated):
    def received():
        return [
            (state.leader, state.leader_epoch)
            for each in replicated.channels.requests(ApiKey.LEADER_AND_ISR, 1)
            for key, state in each.states().items()
            if key == ("one", 0)
        ]

    replicated.add_topic("one", [1])
    replicated.lose(1)
    replicated.clear_sent()
    replicated.join(1)
    assert received() == [(1, 2)], "no state without a leader"
    replicated.lose(1)
    replicated.start(1)
    replicated.clear_sent()
    replicated.elect_controller()
    assert received() == [(1, 4)], "nor from the next controller"


def test_controller_with_expired_session_elects_no_leader(replicated):
    replicated.term._partitions.elected = lambda: False
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()
    assert replicated.stored(T1) == (1, 0, [1, 2, 0])


def test_broker_restarted_between_controllers_leaves_isr(replicated):
    replicated.kill(1)
    replicated.start(1)
    replicated.clear_sent()
    replicated.elect_controller()
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T1)) == dict.fromkeys(
        range(3), (2, 1, [2, 0])
    )
    replicated.elect_controller()
    assert replicated.stored(T1) == (2, 1, [2, 0]), "the restart is handled once"


def test_all_brokers_restarted_between_controllers_keep_isr(replicated):
    replicated.kill(0, 1, 2)
    replicated.start(0, 1, 2)
    replicated.elect_controller()
    assert replicated.stored(T1) == (1, 1, [1, 2, 0])


def test_version_conflict_is_decided_again(replicated):
    replicated.change_isr(T1, 1, 0)  # not announced
    replicated.lose(1)
    assert replicated.stored(T1) == (0, 1, [0])


def grow_isr_of_t1(cluster):
    """Let the ISR of T1 grow without an announcement: the controller knows only its leader."""
    cluster.announce_isr(T1, 1)
    cluster.change_isr(T1, 1, 0, 2)


def test_dead_leader_is_replaced_from_unannounced_isr_before_isrs_change(replicated):
    grow_isr_of_t1(replicated)
    replicated.clear_sent()
    replicated.lose(1)
    assert replicated.stored(T1) == (2, 1, [0, 2])
    assert replicated.channels.leader_and_isr(T1).keys() == {0, 2}
    first = replicated.channels.requests(ApiKey.LEADER_AND_ISR)[0]
    assert first.states().keys() == {T1}


def test_quickly_restarted_broker_leaves_unannounced_isr(replicated):
    grow_isr_of_t1(replicated)
    replicated.kill(2)
    replicated.clear_sent()
    replicated.join(2)
    assert replicated.stored(T1) == (1, 1, [1, 0]), "it may have lost unflushed messages"
    assert replicated.channels.leader_and_isr(T1)[1].isr == [1, 0]


def test_stopping_leader_is_replaced_from_unannounced_isr(replicated):
    grow_isr_of_t1(replicated)
    assert replicated.term.moves.controlled_shutdown(1, -1) == []
    assert replicated.stored(T1) == (2, 1, [0, 2])


def test_rebalance_elects_preferred_leader_of_unannounced_isr(replicated):
    replicated.lose(1)
    replicated.join(1)
    replicated.change_isr(T1, 2, 0, 1)  # not announced
    replicated.term.moves.rebalance(10)
    assert replicated.stored(T1) == (1, 2, [2, 0, 1])


def test_state_of_later_controller_ends_term(replicated):
    state = replicated.state(T1)
    later = LeaderAndIsr(2, 4, (2,), 99, state.zk_version)
    replicated.states.write({T1: later}, -1)
    replicated.kill(1)
    with pytest.raises(ControllerMoved):
        replicated.settle()


def overtake(cluster, monkeypatch, leader_epoch):
    """Let a later controller add a replica to T0 after this term has read the assignments."""
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


def test_late_term_does_not_send_states_of_later_controller(cluster, monkeypatch):
    cluster.add_topic("t", [0, 1])
    cluster.clear_sent()
    overtake(cluster, monkeypatch, leader_epoch=1)
    with pytest.raises(ControllerMoved):
        cluster.elect_controller()
    # The outdated replica list would stay valid for the whole leader epoch.
    assert not cluster.channels.requests(ApiKey.LEADER_AND_ISR)


def test_new_topic_decided_by_later_controller_ends_term(cluster, monkeypatch):
    cluster.clear_sent()
    cluster.create_topic("t", [0, 1])
    overtake(cluster, monkeypatch, leader_epoch=0)
    with pytest.raises(ControllerMoved):
        cluster.settle()
    assert not cluster.channels.requests(ApiKey.LEADER_AND_ISR)


# -- notifications of brokers


def test_isr_changes_are_sent_to_all_brokers_and_notifications_deleted(replicated):
    replicated.change_isr(T0, 0, 1)
    note_isr_changes(replicated.session, [T0, ("gone", 0)])
    replicated.settle()
    assert {b: s.isr for b, s in replicated.channels.metadata(T0).items()} == {
        0: [0, 1], 1: [0, 1], 2: [0, 1],
    }  # fmt: skip
    assert not replicated.channels.requests(ApiKey.LEADER_AND_ISR)
    assert replicated.session.children(paths.ISR_CHANGES) == []


def test_leaders_in_failed_directory_are_replaced(replicated):
    replicated.channels.errors = {(0, T0): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    note_log_dir_failure(replicated.session, 0)
    replicated.settle()
    assert replicated.stored(T0) == (1, 1, [1, 2])
    assert replicated.stored(T2) == (2, 0, [2, 0]), "its other directory works"
    assert replicated.channels.metadata(T0)[2].offline_replicas == [0]
    assert replicated.session.children(paths.LOG_DIR_EVENTS) == []
    replicated.channels.errors = {}
    replicated.lose(0)
    replicated.join(0)
    assert replicated.channels.metadata(T0)[2].offline_replicas == []


# -- requests of brokers and operators


def test_controlled_shutdown_moves_leaders_and_stops_followers(replicated):
    replicated.add_topic("one", [1])
    replicated.clear_sent()
    epoch = replicated.term.context.brokers[1].epoch
    assert replicated.term.moves.controlled_shutdown(1, epoch) == []
    assert replicated.stored(T1) == (2, 1, [2, 0])
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert replicated.stored(("one", 0)) == (1, 0, [1]), "no other replica has it"
    assert leader_epoch_isr(replicated.channels.leader_and_isr(T1)) == dict.fromkeys(
        range(3), (2, 1, [2, 0])
    )
    assert replicated.channels.stopped(1, delete=False) == {T0, T1}
    assert replicated.channels.leader_and_isr(T0).keys() == {0, 2}
    assert replicated.channels.metadata(T0)[2].offline_replicas == [1]
    replicated.settle()
    replicated.lose(1)
    assert replicated.stored(T0) == (0, 1, [0, 2])
    assert replicated.stored(("one", 0)) == (-1, 1, [1])


def test_broker_in_shutdown_is_not_elected(replicated):
    replicated.term.moves.controlled_shutdown(1, -1)
    replicated.lose(0)
    assert replicated.stored(T0)[0] == 2


def test_last_replica_in_sync_keeps_leading_in_shutdown(replicated):
    replicated.announce_isr(T2, 2)
    assert replicated.term.moves.controlled_shutdown(2, -1) == [T2]
    assert replicated.stored(T2) == (2, 0, [2])


def test_shutdown_of_unknown_broker_or_old_epoch_is_refused(replicated):
    with pytest.raises(ProtocolError) as unknown:
        replicated.term.moves.controlled_shutdown(9, -1)
    assert unknown.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    with pytest.raises(ProtocolError) as stale:
        replicated.term.moves.controlled_shutdown(1, replicated.term.context.brokers[1].epoch - 1)
    assert stale.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_new_registration_ends_controlled_shutdown(replicated):
    replicated.term.moves.controlled_shutdown(1, -1)
    assert not replicated.term.context.may_lead(1)
    replicated.kill(1)
    replicated.join(1)
    assert replicated.term.context.may_lead(1)


def restart_preferred_leader(cluster):
    """Restart broker 1; it is back in the ISR of T1 but leads no partition."""
    cluster.lose(1)
    cluster.join(1)
    cluster.announce_isr(T1, 2, 0, 1)
    cluster.clear_sent()


def test_preferred_election_by_znode(replicated):
    restart_preferred_leader(replicated)
    partitions = [{"topic": "t", "partition": n} for n in (0, 1, 9)]
    replicated.create_json(
        paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": partitions}
    )
    replicated.settle()
    assert replicated.stored(T1) == (1, 2, [2, 0, 1])
    assert replicated.channels.leader_and_isr(T1).keys() == {0, 1, 2}
    assert not replicated.channels.leader_and_isr(T0), "its preferred leader leads already"
    assert not replicated.exists(paths.PREFERRED_REPLICA_ELECTION)


@pytest.mark.parametrize("by_node", [True, False])
def test_preferred_leader_of_unannounced_isr_is_elected(replicated, by_node):
    replicated.lose(0)
    replicated.join(0)
    replicated.change_isr(T0, 1, 2, 0)  # not announced yet
    if by_node:
        wanted = [{"topic": "t", "partition": 0}]
        replicated.create_json(
            paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": wanted}
        )
        replicated.settle()
    else:
        assert replicated.term.moves.elect_preferred([T0]) == {T0: ErrorCode.NONE}
    assert replicated.stored(T0) == (0, 2, [1, 2, 0])


def test_preferred_election_by_request(replicated):
    restart_preferred_leader(replicated)
    replicated.change_isr(T2, 2)
    assert replicated.term.moves.elect_preferred([T1, ("x", 0)]) == {
        T1: ErrorCode.NONE,
        ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    replicated.lose(1)
    answers = replicated.term.moves.elect_preferred(None)
    assert answers[T1] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert answers[T0] == ErrorCode.NONE


def test_rebalance_elects_preferred_leaders_above_imbalance(replicated):
    restart_preferred_leader(replicated)
    replicated.term.moves.rebalance(100)
    assert replicated.stored(T1)[0] == 2
    replicated.term.moves.rebalance(10)
    assert replicated.stored(T1)[0] == 1


def test_broker_receives_everything_after_queue_overflow(replicated):
    replicated.clear_sent()
    replicated.term.brokers.send_everything(1)
    assert {broker for broker, _ in replicated.channels.kinds()} == {1}
    assert (
        replicated.channels.leader_and_isr(T0).keys()
        == replicated.channels.metadata(T2).keys()
        == {1}
    )
    replicated.term.brokers.send_everything(9)


# -- trees of other releases


def test_isr_of_genuine_tree_is_kept():
    cluster = ControlledCluster()
    cluster.create_topic("t", [0, 1])
    cluster.server.create(
        f"{paths.topic('t')}/partitions/0/state",
        b'{"controller_epoch":8,"leader":1,"version":1,"leader_epoch":12,"isr":[1]}',
        parents=True,
    )
    cluster.start(0)
    cluster.elect_controller()
    assert cluster.stored(T0) == (-1, 13, [1]), "broker 0 lacks records"
    cluster.join(1)
    assert cluster.stored(T0) == (1, 14, [1])


def test_partition_of_old_release_is_led_by_first_replica():
    cluster = ControlledCluster()
    cluster.create_topic("t", [1, 0])
    cluster.server.create(
        f"{paths.topic('t')}/partitions/0", b'{"version":1,"leader_epoch":3}', parents=True
    )
    cluster.start(0)
    cluster.elect_controller()
    assert cluster.state(T0).leader == -1
    cluster.join(1)
    assert cluster.stored(T0) == (1, 4, [1])


def test_many_partitions_need_few_zookeeper_requests(cluster):
    cluster.create_topic("t", *([n % 3, (n + 1) % 3] for n in range(2000)))
    flights = cluster.session.flights
    cluster.settle()
    assert cluster.session.flights - flights < 30
    cluster.lose(1)
    assert cluster.session.flights - flights < 60
    assert all(state.leader in (0, 2) for state in cluster.term.context.states.values())


# -- unreadable states


def test_unreadable_state_does_not_stop_other_partitions(cluster):
    node = paths.partition(*T0)
    if cluster.states.form is StateForm.PERSISTENT:
        node = paths.partition_state(*T0)
    cluster.create_topic("t", [0, 1, 2], [1, 2, 0])
    cluster.session.create(node, b"garbage", parents=True)
    cluster.settle()
    assert cluster.stored(T1) == (1, 0, [1, 2, 0])
    assert cluster.session.get(node)[0] == b"garbage"


# -- refused requests


@pytest.mark.parametrize("kind", ["refusals", "metadata_refusals"])
def test_broker_that_refused_a_request_receives_everything(replicated, kind):
    setattr(replicated.channels, kind, {1: -1})
    replicated.add_topic("u", [1, 0])
    assert replicated.term.answers.refused == {1}
    setattr(replicated.channels, kind, {})
    replicated.clear_sent()
    replicated.term.resend_refused()
    replicated.settle()
    assert replicated.channels.leader_and_isr(("u", 0)).keys() == {1}
    assert replicated.channels.metadata(T2).keys() == {1}
    assert replicated.term.answers.refused == set()


def test_refused_leader_and_isr_is_sent_to_new_registration(replicated):
    replicated.channels.refusals = {1: int(ErrorCode.STALE_BROKER_EPOCH)}
    replicated.create_topic("u", [1, 0])
    replicated.term.work(replicated.signals)
    replicated.signals.clear()
    replicated.kill(1)
    replicated.start(1)
    replicated.signals.clear()  # the watch has not fired yet
    replicated.clear_sent()
    replicated.channels.answer()
    replicated.channels.refusals = {}
    replicated.settle()
    requests = replicated.channels.requests(ApiKey.LEADER_AND_ISR, 1)
    registered = replicated.server.get(paths.broker(1))[1].czxid
    assert {each.request.broker_epoch for each in requests} == {registered}
    assert 1 in replicated.channels.leader_and_isr(("u", 0))
    assert replicated.term.answers.refused == set(), "everything was sent on its registration"


@pytest.mark.parametrize("kind", ["refusals", "metadata_refusals"])
def test_refusal_by_stale_controller_epoch_ends_term(replicated, kind):
    setattr(replicated.channels, kind, {1: int(ErrorCode.STALE_CONTROLLER_EPOCH)})
    replicated.create_topic("u", [1, 0])
    with pytest.raises(ControllerMoved):
        replicated.settle()


def test_changed_unclean_default_elects_leader(cluster):
    cluster.create_topic("t", [0, 1])
    cluster.add_topic("strict", [0, 1], unclean_leader_election_enable="false")
    cluster.change_isr(T0, 0)
    cluster.change_isr(("strict", 0), 0)
    cluster.settle()
    cluster.lose(0)
    assert cluster.stored(T0)[0] == -1
    cluster.term.set_unclean_default(True)
    assert cluster.stored(T0)[0] == 1
    assert cluster.stored(("strict", 0))[0] == -1
    cluster.term.set_unclean_default(False)
    assert cluster.stored(T0)[0] == 1


def test_malformed_registration_is_ignored(replicated):
    session = replicated.sessions[7] = InstantSession(replicated.server)
    session.create(paths.broker(7), b'{"host":"h","port":1,"endpoints":["x"]}', ephemeral=True)
    replicated.lose(1)
    assert replicated.stored(T1) == (2, 1, [2, 0]), "the controller goes on working"
    assert sorted(replicated.term.context.brokers) == [0, 2]


def test_state_with_last_leader_epoch_is_kept(replicated):
    path = replicated.states.watched(T1)
    state = replicated.json(path) | {"leader_epoch": 2**31 - 1}
    replicated.session.set(path, json.dumps(state).encode())
    replicated.kill(1)
    replicated.elect_controller()
    assert replicated.json(path)["leader_epoch"] == 2**31 - 1, "there is no epoch after it"
    assert replicated.stored(T0)[0] == 0
