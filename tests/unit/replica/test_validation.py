import pytest

from zkbroker.errors import ZkbrokerError
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.replica.validation import check_decision

SOUND = {"partition": 3, "leader": 1, "leader_epoch": 2, "isr": [1], "replicas": [1, 2]}


@pytest.mark.parametrize("kind", [LeaderAndIsrPartition, UpdateMetadataPartition])
@pytest.mark.parametrize("leader", [1, -1, -2])
def test_what_controllers_say_is_sound(kind, leader):
    check_decision("t", kind(**{**SOUND, "leader": leader}))


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
def test_what_no_controller_says_is_refused_and_names_the_partition(kind, field, value):
    with pytest.raises(ZkbrokerError, match="partition t-"):
        check_decision("t", kind(**{**SOUND, field: value}))


@pytest.mark.parametrize("topic", ["", "..", "a/b", "x" * 250])
def test_names_that_no_topic_has_are_refused(topic):
    with pytest.raises(ZkbrokerError):
        check_decision(topic, LeaderAndIsrPartition(**SOUND))
