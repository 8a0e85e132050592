from functools import partial

import pytest

from tests.support.controlled_cluster import ControlledCluster
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import LeaderAndIsrResponse, StopReplicaResponse
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE, PartitionError
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture(params=list(StateForm))
def cluster(request):
    cluster = ControlledCluster(request.param)
    cluster.start(0, 1, 2)
    cluster.topic("t", [0, 1], [1, 0])
    cluster.begin()
    # as a leader does; its node must not be in the way
    PartitionStates(cluster.sessions[0], request.param).register_leader({T0: cluster.state(T0)})
    cluster.forget()
    return cluster


def gone(cluster, topic="t"):
    return not any(
        cluster.exists(path)
        for path in (paths.topic(topic), paths.topic_config(topic), paths.delete_topic(topic))
    )


def test_a_topic_is_deleted_everywhere_and_then_forgotten(cluster):
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert gone(cluster)
    for broker in (0, 1):
        assert cluster.notes.stopped(broker, delete=False) == {T0, T1}
        assert cluster.notes.stopped(broker, delete=True) == {T0, T1}
    metadata = cluster.notes.metadata(T0)
    assert metadata.keys() == {0, 1, 2}
    assert metadata[2].leader == LEADER_DURING_DELETE
    assert metadata[2].leader_epoch == 0
    order = [kind for broker, kind in cluster.notes.kinds() if broker == 0]
    assert order == ["UPDATE_METADATA", "STOP_REPLICA", "STOP_REPLICA"]
    assert cluster.term.deletion.pending == 0


def test_nodes_stay_until_every_broker_has_answered(cluster):
    cluster.notes.silent = {1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.notes.silent = set()
    cluster.settle()
    assert gone(cluster)


def test_a_name_can_be_used_again(cluster):
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.topic("t", [2])
    cluster.settle()
    assert cluster.led(T0) == (2, 0, [2])
    assert cluster.notes.decided(T0)[2].is_new


def test_a_deletion_waits_for_a_broker_that_is_away(cluster):
    cluster.kill(1)
    cluster.settle()
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    assert not cluster.notes.stopped(0, delete=True)
    cluster.start(1)
    cluster.settle()
    assert gone(cluster)


def test_a_broker_that_dies_before_it_answers_is_asked_again(cluster):
    cluster.notes.silent = {1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.kill(1)
    cluster.notes.silent = set()
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.forget()
    cluster.start(1)
    cluster.settle()
    assert gone(cluster)
    assert cluster.notes.stopped(1, delete=True) == {T0, T1}
    assert not cluster.notes.decided(T0), "a topic that is being deleted gets no leader"


def test_an_error_suspends_the_deletion_until_the_broker_returns(cluster):
    cluster.notes.errors = {(1, T1): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.notes.errors = {}
    cluster.kill(1)
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    assert gone(cluster)


def asked_twice(cluster):
    """Brokers 0 and 1 are asked to delete; 0 bounces, so that 1 is asked once more.

    Returns what answers the earlier and the later question for broker 1.
    """
    cluster.notes.silent = {0, 1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.kill(0)
    cluster.start(0)
    cluster.settle()
    asked = [
        each for each in cluster.notes.of(ApiKey.STOP_REPLICA, 1) if each.request.delete_partitions
    ]
    assert len(asked) == 2
    cluster.notes.unanswered = [each for each in cluster.notes.unanswered if each.broker != 1]

    def answer(question, code, whole=ErrorCode.NONE):
        errors = [PartitionError(*key, int(code)) for key in (T0, T1)]
        question.answered(1, StopReplicaResponse(int(whole), errors))
        cluster.notes.silent = {1}
        cluster.settle()

    return [partial(answer, question) for question in asked]


def test_a_broker_that_is_asked_twice_is_waited_for_twice(cluster):
    earlier, later = asked_twice(cluster)
    earlier(ErrorCode.NONE)
    assert cluster.exists(paths.topic("t")), "the later question may reach it under a new topic"
    later(ErrorCode.NONE)
    assert gone(cluster)


def test_an_earlier_answer_says_nothing_of_the_topic_that_was_made_again(cluster):
    earlier, later = asked_twice(cluster)
    later(ErrorCode.NONE)
    assert gone(cluster)
    cluster.topic("t", [0, 1], [1, 0])
    cluster.settle()
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    later(ErrorCode.NONE)
    earlier(ErrorCode.NONE)
    assert cluster.exists(paths.topic("t"))
    cluster.notes.silent = set()
    cluster.settle()
    assert gone(cluster)


def test_a_broker_that_deleted_and_then_could_not_is_waited_for(cluster):
    earlier, later = asked_twice(cluster)
    earlier(ErrorCode.NONE)
    later(ErrorCode.KAFKA_STORAGE_ERROR)
    assert cluster.exists(paths.topic("t"))
    cluster.kill(1)
    cluster.notes.silent = set()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    assert gone(cluster)


def test_a_broker_that_refused_and_then_deleted_is_not_waited_for(cluster):
    earlier, later = asked_twice(cluster)
    earlier(ErrorCode.UNKNOWN_SERVER_ERROR, whole=ErrorCode.UNKNOWN_SERVER_ERROR)
    later(ErrorCode.NONE)
    assert gone(cluster)


@pytest.mark.parametrize("code", [-1, 77])
def test_a_refused_stop_is_sent_again_to_the_same_registration(cluster, code):
    cluster.notes.refusals = {1: code}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    assert cluster.term.answers.refused == {1}
    cluster.notes.refusals = {}
    cluster.term.resend_refused()
    cluster.settle()
    assert gone(cluster)


def test_a_shutdown_moves_nothing_that_is_being_deleted(cluster):
    cluster.notes.silent = {0, 1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    before = cluster.led(T0), cluster.led(T1)
    cluster.forget()
    assert cluster.term.moves.controlled_shutdown(0, -1) == []
    assert (cluster.led(T0), cluster.led(T1)) == before
    assert not cluster.notes.decided(T0), "who has deleted it would make it anew"


def test_an_error_at_a_broker_moves_nothing_that_is_being_deleted(cluster):
    cluster.notes.silent = {0, 1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    before = cluster.led(T0)
    cluster.forget()
    answer = LeaderAndIsrResponse(0, [PartitionError(*T0, int(ErrorCode.KAFKA_STORAGE_ERROR))])
    cluster.term.answers.leader_and_isr(0, answer)
    cluster.settle()
    assert cluster.led(T0) == before
    assert not cluster.notes.decided(T0)


def test_a_topic_under_deletion_elects_no_leader(cluster):
    cluster.notes.silent = {1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    before = cluster.led(T0)
    cluster.kill(0)
    cluster.settle()
    assert cluster.led(T0) == before


def test_the_next_controller_goes_on_with_a_deletion(cluster):
    cluster.notes.silent = {0, 1, 2}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.notes.silent = set()
    cluster.notes.unanswered = []
    cluster.begin()
    assert gone(cluster)


def test_the_marker_of_an_unknown_topic_goes_at_once(cluster):
    cluster.session.create(paths.delete_topic("x"))
    cluster.settle()
    assert not cluster.exists(paths.delete_topic("x"))
    assert not cluster.notes.of(ApiKey.STOP_REPLICA)


def test_markers_are_taken_back_while_deletion_is_disabled():
    cluster = ControlledCluster(delete_topics=False)
    cluster.start(0)
    cluster.topic("t", [0])
    cluster.begin()
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert not cluster.exists(paths.delete_topic("t"))
    assert cluster.led(T0) == (0, 0, [0])
    cluster.kill(0)
    cluster.settle()
    cluster.start(0)
    cluster.settle()
    assert cluster.led(T0)[0] == 0


def test_a_deposed_controller_removes_nothing(cluster):
    cluster.notes.silent = {0, 1}
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    cluster.session.set(paths.CONTROLLER_EPOCH, b"9")
    cluster.notes.silent = set()
    with pytest.raises(ControllerMoved):
        cluster.settle()
    assert cluster.exists(paths.topic("t"))


@pytest.mark.parametrize("stray", ["/extra", "/partitions/0/extra", "/partitions/0/extra/deep"])
def test_a_topic_with_unknown_nodes_below_it_is_removed(cluster, stray):
    path = f"{paths.topic('t')}{stray}"
    cluster.session.create(path, parents=True)
    topics.mark_for_deletion(cluster.session, "t")
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))
    assert not cluster.exists(paths.delete_topic("t"))
