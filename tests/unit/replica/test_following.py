"""Appends, high watermark, log start and truncation of a follower."""

import pytest

from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.errors import NotLeaderForPartition


def test_follower_waits_for_flush_policy():
    partition = make_partition()
    partition.become_follower(decided(2, 5))
    partition.role.append([(5, 1), (5, 2)])
    partition.role.wait_flushed()
    assert partition.log.flush_waits == []
    partition.log.flush_messages = 1
    partition.role.wait_flushed()
    assert partition.log.flush_waits == [None]
    partition.log.recovery_point = 2
    partition.role.wait_flushed()
    assert partition.log.flush_waits == [None]


def test_following_of_old_epoch_is_refused():
    partition = make_partition()
    partition.become_follower(decided(2, 4))
    before = partition.role
    partition.become_follower(decided(2, 5))
    partition.role.append([(5, 97), (5, 98)])
    partition.role.follow_marks(9, 0)
    assert partition.high_watermark == 2
    for act in (
        lambda: before.append([(4, 99)]),
        lambda: before.truncate_to(0),
        lambda: before.follow_marks(9, 0),
        lambda: before.restart_at(9),
        lambda: before.wait_flushed(),
    ):
        with pytest.raises(NotLeaderForPartition):
            act()
    assert partition.log.values(0, 9) == b"ab"


def test_follower_adopts_log_start_of_leader():
    partition = make_partition(log=EntryLog([(5, 1)] * 6))
    partition.become_follower(decided(2, 5))
    partition.role.follow_marks(2, 4)
    assert (partition.log_start_offset, partition.high_watermark) == (4, 4)


def test_truncation_lowers_high_watermark():
    partition = make_partition(log=EntryLog([(5, 1)] * 6), high_watermark=5)
    partition.become_follower(decided(2, 6))
    assert partition.role.truncate_to(3) == 3
    assert partition.high_watermark == 3
    partition.role.restart_at(8)
    assert (partition.log_start_offset, partition.high_watermark) == (8, 8)
