from functools import partial

import pytest

from tests.support.controlled_cluster import ControlledCluster
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import LeaderAndIsrResponse, StopReplicaResponse
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE, PartitionError
from zkbroker.registry import paths
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture(params=list(StateForm))
def cluster(request):
    cluster = ControlledCluster(request.param)
    cluster.start(0, 1, 2)
    cluster.create_topic("t", [0, 1], [1, 0])
    cluster.elect_controller()
    # A leader's registration must not prevent the deletion.
    PartitionStates(cluster.sessions[0], request.param).register_leader({T0: cluster.state(T0)})
    cluster.clear_sent()
    return cluster


def deleted(cluster, topic="t"):
    return not any(
        cluster.exists(path)
        for path in (paths.topic(topic), paths.topic_config(topic), paths.delete_topic(topic))
    )


def test_topic_is_deleted_on_all_brokers_and_then_in_zookeeper(cluster):
    cluster.delete_topic()
    assert deleted(cluster)
    for broker in (0, 1):
        assert cluster.channels.stopped(broker, delete=False) == {T0, T1}
        assert cluster.channels.stopped(broker, delete=True) == {T0, T1}
    metadata = cluster.channels.metadata(T0)
    assert metadata.keys() == {0, 1, 2}
    assert metadata[2].leader == LEADER_DURING_DELETE
    assert metadata[2].leader_epoch == 0
    order = [kind for broker, kind in cluster.channels.kinds() if broker == 0]
    assert order == ["UPDATE_METADATA", "STOP_REPLICA", "STOP_REPLICA"]
    assert cluster.term.context.deleting == set()


def test_znodes_stay_until_all_brokers_have_responded(cluster):
    cluster.channels.silent = {1}
    cluster.delete_topic()
    assert cluster.exists(paths.topic("t"))
    cluster.channels.silent = set()
    cluster.settle()
    assert deleted(cluster)


def test_deleted_topic_can_be_created_again(cluster):
    cluster.delete_topic()
    cluster.add_topic("t", [2])
    assert cluster.stored(T0) == (2, 0, [2])
    assert cluster.channels.leader_and_isr(T0)[2].is_new


def test_deletion_waits_for_dead_broker(cluster):
    cluster.lose(1)
    cluster.delete_topic()
    assert cluster.exists(paths.topic("t"))
    assert not cluster.channels.stopped(0, delete=True)
    cluster.join(1)
    assert deleted(cluster)


def test_deletion_is_repeated_to_broker_that_died_before_response(cluster):
    cluster.channels.silent = {1}
    cluster.delete_topic()
    cluster.kill(1)
    cluster.channels.silent = set()
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.clear_sent()
    cluster.join(1)
    assert deleted(cluster)
    assert cluster.channels.stopped(1, delete=True) == {T0, T1}
    assert not cluster.channels.leader_and_isr(T0), "a topic that is being deleted gets no leader"


def test_failed_deletion_is_repeated_after_broker_restart(cluster):
    cluster.channels.errors = {(1, T1): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    cluster.delete_topic()
    assert cluster.exists(paths.topic("t"))
    cluster.channels.errors = {}
    cluster.lose(1)
    cluster.join(1)
    assert deleted(cluster)


def delete_with_two_requests(cluster):
    """Send two deletions to broker 1, since broker 0 restarts after the first.

    Returns functions that respond to the first and to the second.
    """
    cluster.channels.silent = {0, 1}
    cluster.delete_topic()
    cluster.kill(0)
    cluster.join(0)
    sent = cluster.channels.requests(ApiKey.STOP_REPLICA, 1)
    deletions = [each for each in sent if each.request.delete_partitions]
    assert len(deletions) == 2
    cluster.channels.unanswered = [each for each in cluster.channels.unanswered if each.broker != 1]

    def respond(deletion, code, whole=ErrorCode.NONE):
        errors = [PartitionError(*key, int(code)) for key in (T0, T1)]
        deletion.answered(1, StopReplicaResponse(int(whole), errors))
        cluster.channels.silent = {1}
        cluster.settle()

    return [partial(respond, deletion) for deletion in deletions]


def test_deletion_waits_for_responses_to_both_requests(cluster):
    earlier, later = delete_with_two_requests(cluster)
    earlier(ErrorCode.NONE)
    assert cluster.exists(paths.topic("t")), "the second request might delete a new topic"
    later(ErrorCode.NONE)
    assert deleted(cluster)


def test_responses_to_earlier_deletion_do_not_count_for_recreated_topic(cluster):
    earlier, later = delete_with_two_requests(cluster)
    later(ErrorCode.NONE)
    assert deleted(cluster)
    cluster.add_topic("t", [0, 1], [1, 0])
    cluster.delete_topic()
    later(ErrorCode.NONE)
    earlier(ErrorCode.NONE)
    assert cluster.exists(paths.topic("t"))
    cluster.channels.silent = set()
    cluster.settle()
    assert deleted(cluster)


def test_deletion_waits_for_broker_whose_second_response_failed(cluster):
    earlier, later = delete_with_two_requests(cluster)
    earlier(ErrorCode.NONE)
    later(ErrorCode.KAFKA_STORAGE_ERROR)
    assert cluster.exists(paths.topic("t"))
    cluster.kill(1)
    cluster.channels.silent = set()
    cluster.settle()
    cluster.join(1)
    assert deleted(cluster)


def test_deletion_that_an_operator_ended_begins_again(cluster):
    cluster.channels.silent = {1}
    cluster.delete_topic()
    cluster.session.delete(paths.delete_topic("t"))
    cluster.settle()
    cluster.channels.silent = set()
    cluster.settle()
    cluster.clear_sent()
    cluster.delete_topic()
    for broker in (0, 1):
        assert cluster.channels.stopped(broker, delete=True) == {T0, T1}
    assert deleted(cluster)


def test_deletion_ends_after_refusal_and_later_success(cluster):
    earlier, later = delete_with_two_requests(cluster)
    earlier(ErrorCode.UNKNOWN_SERVER_ERROR, whole=ErrorCode.UNKNOWN_SERVER_ERROR)
    later(ErrorCode.NONE)
    assert deleted(cluster)


def test_refused_stop_replica_is_sent_again(cluster):
    cluster.channels.refusals = {1: -1}
    cluster.delete_topic()
    assert cluster.exists(paths.topic("t"))
    assert cluster.term.answers.refused == {1}
    cluster.channels.refusals = {}
    cluster.term.resend_refused()
    cluster.settle()
    assert deleted(cluster)


def test_controlled_shutdown_moves_no_leader_of_deleted_topic(cluster):
    cluster.channels.silent = {0, 1}
    cluster.delete_topic()
    before = cluster.stored(T0), cluster.stored(T1)
    cluster.clear_sent()
    assert cluster.term.moves.controlled_shutdown(0, -1) == []
    assert (cluster.stored(T0), cluster.stored(T1)) == before
    assert not cluster.channels.leader_and_isr(T0), (
        "a broker that has deleted it would create it again"
    )


def test_storage_error_moves_no_leader_of_deleted_topic(cluster):
    cluster.channels.silent = {0, 1}
    cluster.delete_topic()
    before = cluster.stored(T0)
    cluster.clear_sent()
    answer = LeaderAndIsrResponse(0, [PartitionError(*T0, int(ErrorCode.KAFKA_STORAGE_ERROR))])
    cluster.term.answers.leader_and_isr(0, answer)
    cluster.settle()
    assert cluster.stored(T0) == before
    assert not cluster.channels.leader_and_isr(T0)


def test_broker_failure_elects_no_leader_of_deleted_topic(cluster):
    cluster.channels.silent = {1}
    cluster.delete_topic()
    before = cluster.stored(T0)
    cluster.lose(0)
    assert cluster.stored(T0) == before


def test_next_controller_continues_deletion(cluster):
    cluster.channels.silent = {0, 1, 2}
    cluster.delete_topic()
    cluster.channels.silent = set()
    cluster.channels.unanswered = []
    cluster.elect_controller()
    assert deleted(cluster)


def test_deletion_marker_of_unknown_topic_is_removed(cluster):
    cluster.session.create(paths.delete_topic("x"))
    cluster.settle()
    assert not cluster.exists(paths.delete_topic("x"))
    assert not cluster.channels.requests(ApiKey.STOP_REPLICA)


def test_deletion_markers_are_removed_when_deletion_is_disabled():
    cluster = ControlledCluster(delete_topics=False)
    cluster.start(0)
    cluster.create_topic("t", [0])
    cluster.elect_controller()
    cluster.delete_topic()
    assert not cluster.exists(paths.delete_topic("t"))
    assert cluster.stored(T0) == (0, 0, [0])
    cluster.lose(0)
    cluster.join(0)
    assert cluster.stored(T0)[0] == 0


def test_deposed_controller_deletes_no_znodes(cluster):
    cluster.channels.silent = {0, 1}
    cluster.delete_topic()
    cluster.session.set(paths.CONTROLLER_EPOCH, b"9")
    cluster.channels.silent = set()
    with pytest.raises(ControllerMoved):
        cluster.settle()
    assert cluster.exists(paths.topic("t"))


@pytest.mark.parametrize("stray", ["/extra", "/partitions/0/extra", "/partitions/0/extra/deep"])
def test_topic_with_unknown_child_znodes_is_deleted(cluster, stray):
    path = f"{paths.topic('t')}{stray}"
    cluster.session.create(path, parents=True)
    cluster.delete_topic()
    assert not cluster.exists(paths.topic("t"))
    assert not cluster.exists(paths.delete_topic("t"))
