"""The view of the cluster that the controller's requests make."""

from types import MappingProxyType

import pytest

from zkbroker.broker.view import ClusterView
from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages import UpdateMetadataRequest
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.replica.fencing import ControllerFence


def topics(assignments, configs=MappingProxyType({}), deleting=()):
    return TopicsView(MappingProxyType(assignments), MappingProxyType(configs), frozenset(deleting))


def view():
    made = ClusterView(BrokerInfo(1, "a", 1))
    made.set_brokers({2: BrokerInfo(2, "b", 2)})
    made.set_topics(topics({"t": {0: (1, 2)}}))
    return made


def update(made, leader, epoch=1, controller_epoch=1, fence=None):
    state = UpdateMetadataPartition("t", 0, controller_epoch, leader, epoch, [1, 2], 0, [1, 2])
    request = UpdateMetadataRequest(0, controller_epoch, partition_states=[state])
    return made.update(request, fence or ControllerFence(lambda: 1))


def test_no_leader_is_known_before_update_metadata():
    made = view()
    assert made.leader("t", 0) == (-1, -1)
    assert not made.led("t")
    assert update(made, 2, epoch=4) == ErrorCode.NONE
    assert made.leader("t", 0) == (2, 4)
    assert made.led("t")


def test_dead_leader_is_not_returned():
    made = view()
    update(made, 3)
    assert made.leader("t", 0) == (-1, -1)


def test_update_of_a_deposed_controller_is_refused():
    made, fence = view(), ControllerFence(lambda: 1)
    update(made, 2, controller_epoch=3, fence=fence)
    assert update(made, 1, controller_epoch=2, fence=fence) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert made.leader("t", 0)[0] == 2


def test_deleted_partition_has_no_leader():
    made = view()
    update(made, 2)
    update(made, -2)
    assert made.decided("t", 0) is None


def test_decisions_of_a_deleted_topic_are_forgotten():
    made = view()
    update(made, 2)
    made.set_topics(topics({}))
    assert made.decided("t", 0) is None


def test_decision_of_a_new_partition_is_awaited_for_a_bounded_time(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("zkbroker.broker.view.time.monotonic", lambda: now_s[0])
    made = view()
    assert made.awaits_decision("t")
    assert not made.awaits_decision("unknown")
    update(made, 2)
    assert not made.awaits_decision("t")
    made.set_topics(topics({"t": {0: (1, 2), 1: (2, 1)}}))
    assert made.awaits_decision("t")
    now_s[0] += 1.0
    assert not made.awaits_decision("t")


@pytest.mark.parametrize(
    "invalid",
    [
        UpdateMetadataPartition("t", -1, 1, 1, 0, [1], 0, [1]),
        UpdateMetadataPartition("../t", 0, 1, 1, 0, [1], 0, [1]),
        UpdateMetadataPartition("t", 1, 1, 1, -7, [1], 0, [1]),
        UpdateMetadataPartition("t", 1, 1, -9, 0, [1], 0, [1]),
        UpdateMetadataPartition("t", 1, 1, 1, 0, [1], 0, [1, -4]),
    ],
)
def test_invalid_partition_state_is_refused_and_the_others_apply(invalid, caplog):
    made = view()
    valid = UpdateMetadataPartition("t", 0, 1, 2, 1, [1, 2], 0, [1, 2])
    request = UpdateMetadataRequest(7, 1, partition_states=[invalid, valid])
    assert made.update(request, ControllerFence(lambda: 1)) == ErrorCode.INVALID_REQUEST
    assert made.leader("t", 0) == (2, 1)
    assert made.decided(invalid.topic, invalid.partition) is None
    assert "UpdateMetadata refused controller=7" in caplog.text


def test_partitions_last_led_by_other_brokers_are_known():
    made = view()
    assert made.last_led_by_others([1, 2]) == []
    update(made, 2)
    assert made.last_led_by_others([1, 2]) == []
    assert made.last_led_by_others([1]) == [("t", 0)]
