import pytest

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.replica.fencing import ControllerFence, check_decision

VALID = {"partition": 3, "leader": 1, "leader_epoch": 2, "isr": [1], "replicas": [1, 2]}


def code(fence, controller_epoch, broker_epoch):
    try:
        fence.check(0, controller_epoch, broker_epoch)
    except ProtocolError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "expected"),
    [
        (3, 4958, ErrorCode.NONE),
        (4, 4958, ErrorCode.NONE),
        (3, -1, ErrorCode.NONE),
        (2, 4958, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, 4957, ErrorCode.STALE_BROKER_EPOCH),
        (3, 1_004_958, ErrorCode.UNKNOWN_SERVER_ERROR),
        (2, 4957, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_epoch_checks_equal_those_of_genuine_brokers(controller_epoch, broker_epoch, expected):
    fence = ControllerFence(lambda: 4958)
    fence.check(0, 3, 4958)
    assert code(fence, controller_epoch, broker_epoch) == expected


def test_refused_request_does_not_raise_controller_epoch():
    fence = ControllerFence(lambda: 7)
    fence.check(1, 3, 7)
    assert code(fence, 9, 6) == ErrorCode.STALE_BROKER_EPOCH
    assert (fence.controller_epoch, fence.controller_id) == (3, 1)


def test_broker_epoch_is_refused_before_registration():
    fence = ControllerFence(lambda: None)
    assert code(fence, 1, 5) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert code(fence, 1, -1) == ErrorCode.NONE


def test_controller_epoch_without_election_is_refused():
    asked = []

    def elected(epoch):
        asked.append(epoch)
        return epoch <= 4

    fence = ControllerFence(lambda: 7, elected)
    fence.check(1, 3, 7)
    assert code(fence, 2**31 - 1, -1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (fence.controller_epoch, fence.controller_id) == (3, 1)
    assert code(fence, 3, 7) == ErrorCode.NONE
    assert code(fence, 4, 7) == ErrorCode.NONE
    assert asked == [3, 2**31 - 1, 4]


def test_controller_epoch_is_accepted_without_zookeeper():
    fence = ControllerFence(lambda: 7, lambda epoch: None)
    assert code(fence, 5, 7) == ErrorCode.NONE
    assert fence.controller_epoch == 5


def test_later_controller_during_election_check_is_kept():
    fence = ControllerFence(lambda: 7)

    def elected(epoch):
        if epoch == 3:
            fence.check(2, 4, 7)
        return True

    fence._elected = elected
    assert code(fence, 3, 7) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert (fence.controller_epoch, fence.controller_id) == (4, 2)


def test_request_through_abandoned_connection_is_refused():
    fence = ControllerFence(lambda: 7)
    fence.check(1, 3, 7, connection=5)
    fence.check(1, 3, 7, connection=5)
    fence.check(1, 3, 7, connection=8)
    with pytest.raises(ProtocolError, match="has left this connection") as raised:
        fence.check(1, 3, 7, connection=5)
    assert raised.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    fence.check(1, 3, 7, connection=8)


def test_later_controller_may_use_any_connection():
    fence = ControllerFence(lambda: 7)
    fence.check(1, 3, 7, connection=8)
    fence.check(2, 4, 7, connection=6)
    assert fence.controller_id == 2
    with pytest.raises(ProtocolError):
        fence.check(1, 3, 7, connection=9)


@pytest.mark.parametrize("kind", [LeaderAndIsrPartition, UpdateMetadataPartition])
@pytest.mark.parametrize("leader", [1, -1, -2])
def test_valid_decision_is_accepted(kind, leader):
    check_decision("t", kind(**{**VALID, "leader": leader}))


@pytest.mark.parametrize("kind", [LeaderAndIsrPartition, UpdateMetadataPartition])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partition", -1),
        ("partition", 100_000),
        ("leader_epoch", -1),
        ("zk_version", -1),
        ("leader", -3),
        ("isr", [1, -1]),
        ("replicas", [-2]),
    ],
)
def test_invalid_decision_is_refused_with_partition(kind, field, value):
    with pytest.raises(ZkbrokerError, match="partition t-"):
        check_decision("t", kind(**{**VALID, field: value}))


@pytest.mark.parametrize("topic", ["", "..", "a/b", "x" * 250])
def test_invalid_topic_names_are_refused(topic):
    with pytest.raises(ZkbrokerError):
        check_decision(topic, LeaderAndIsrPartition(**VALID))
