"""Texts of the errors of a batch, and the remedy that each names."""

import pytest

from zkbroker.client import PartitionInfo
from zkbroker.errors import LeaderNotAvailable, NetworkError, protocol_error
from zkbroker.producer import BrokersUnavailable
from zkbroker.producer.outcomes import (
    cure_of,
    gave_up,
    shortage,
    timed_out,
    why_in_doubt,
)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (56, "the disk of this partition, which may be full"),
        (2, "damaged on their way"),
        (3, "create topic t"),
        (6, "see which broker leads it"),
        (7, "start the broker that leads it"),
    ],
)
def test_error_message_names_remedy(code, text):
    assert text in cure_of(protocol_error(code), "t")


def test_leaderless_error_names_missing_broker_once():
    error = LeaderNotAvailable("t-0 has no leader: not registered: 1. Start broker 1")
    final = str(gave_up("topic t partition 0", 4, error, "", cure_of(error, "t")))
    assert final.count("tart ") == 1


@pytest.mark.parametrize(
    ("replicas", "isr", "min_isr", "text"),
    [
        (
            (1, 2, 3),
            (2,),
            "2",
            "1 of 3 replicas in sync, and min.insync.replicas=2: start broker 1,",
        ),
        ((1, 2, 3), (2,), None, "1 of 3 replicas in sync, and min.insync.replicas: start broker 1"),
        (
            (1,),
            (1,),
            "2",
            "1 of 1 replicas in sync, and min.insync.replicas=2: give the topic more",
        ),
        ((1, 2), (1, 2), "2", "by now there are enough"),
        ((1,), (1,), None, "give the topic as many replicas as that setting asks for"),
        ((), (), "2", "fewer replicas are in sync than min.insync.replicas=2 asks for"),
    ],
)
def test_replica_shortage_names_counts_and_remedy(replicas, isr, min_isr, text):
    assert text in shortage(PartitionInfo("t", 0, 2, 0, replicas, isr), min_isr)


def test_replica_shortage_without_metadata():
    assert "fewer replicas are in sync" in shortage(None, None)


def test_error_says_why_messages_may_be_stored():
    assert why_in_doubt(protocol_error(19)) == ""
    lost = why_in_doubt(NetworkError("closed"))
    written = why_in_doubt(protocol_error(20))
    assert "answer was lost" in lost
    assert "too few replicas" in written
    error = gave_up("topic t partition 0", 4, protocol_error(19), written, "start broker 2")
    assert isinstance(error, BrokersUnavailable)
    assert str(error).endswith("so the messages may be stored")
    assert "answer" not in str(error)
    assert "so the messages" not in str(timed_out("topic t", 5, None, ""))
