"""Appends, the high watermark, the ISR, and how far readers see."""

import pytest

from tests.support.leading import append_for_all, fetch, leading, written
from tests.support.replicas import EntryLog, ReplicaClock, decided, make_partition
from zkbroker.errors import (
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderForPartition,
    OffsetOutOfRange,
    ProtocolError,
)
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.reads import ReadEnd


def test_each_reader_sees_its_end():
    log = EntryLog()
    partition = leading(b"abcdefghij", log=log)
    fetch(partition, 2, 7)
    fetch(partition, 3, 4)
    log.first_unstable_offset = 2
    seen = {
        reader: partition.leadership().read(0, 100, reader=reader).found.values
        for reader in ReadEnd
    }
    assert seen == {
        ReadEnd.LOG_END: b"abcdefghij",
        ReadEnd.HIGH_WATERMARK: b"abcd",
        ReadEnd.LAST_STABLE: b"ab",
    }
    found = partition.leadership().read(0, 100)
    assert (found.high_watermark, found.last_stable_offset, found.log_end_offset) == (4, 2, 10)


def test_a_reader_between_high_watermark_and_log_end_gets_nothing_and_no_error():
    partition = leading(b"abcdef")
    fetch(partition, 2, 3)
    fetch(partition, 3, 3)
    assert partition.leadership().read(5, 100).found.values == b""
    with pytest.raises(OffsetOutOfRange):
        partition.leadership().read(7, 100)


def test_without_another_replica_everything_is_visible_at_once():
    partition = make_partition()
    partition.become_leader(decided(1, 0, (1,), (1,)))
    partition.leadership().append(b"abc")
    assert partition.high_watermark == 3


def test_the_high_watermark_is_the_smallest_log_end_of_the_isr_and_only_grows():
    partition = leading(b"abcdef")
    assert partition.high_watermark == 0
    fetch(partition, 2, 6)
    assert partition.high_watermark == 0
    fetch(partition, 3, 4)
    assert partition.high_watermark == 4
    fetch(partition, 3, 2)
    assert partition.high_watermark == 4


def test_a_replica_that_keeps_up_is_waited_for_before_it_is_in_sync():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 3, 6)
    assert partition.leadership().isr.proposed == (1, 2, 3)
    partition.leadership().append(b"gh")
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_a_replica_enters_the_isr_when_zookeeper_has_it():
    proposals = []
    partition = leading(b"abcdef", isr=(1, 2), isr_proposed=proposals.append)
    fetch(partition, 2, 6)
    fetch(partition, 3, 5)
    assert proposals == []  # it lacks a message below the high watermark
    fetch(partition, 3, 6)
    assert proposals == [partition.leading]
    assert partition.leadership().isr.members == (1, 2)
    assert written(partition) is True
    assert partition.leadership().isr.members == (1, 2, 3)
    assert (partition.leadership().isr.zk_version, partition.isr_changes) == (1, (0, 1))


def test_a_replica_that_misses_the_start_of_the_epoch_stays_out():
    # The high watermark of a new leader may be behind what its predecessor acknowledged.
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(decided(1, 5, (1, 2)))
    fetch(partition, 3, 5)
    assert partition.leadership().isr.proposed is None
    fetch(partition, 3, 10)
    assert partition.leadership().isr.proposed == (1, 2, 3)


@pytest.mark.parametrize(("epoch", "code"), [(4, 74), (6, 75)])
def test_a_fetch_of_another_epoch_is_not_noted(epoch, code):
    partition = leading(b"abc", isr=(1, 2), epoch=5)
    with pytest.raises(ProtocolError) as raised:
        partition.leadership().record_follower_fetch(2, 3, 0, 3, epoch)
    assert raised.value.code == code
    assert partition.leadership().remote[2].log_end_offset == -1
    assert partition.high_watermark == 0
    assert partition.leadership().record_follower_fetch(2, 3, 0, 3, 5)
    assert partition.leadership().remote[2].log_end_offset == 3


def test_a_fetch_is_not_noted_where_another_broker_leads_by_now():
    partition = leading(b"abc", isr=(1, 2))
    leadership = partition.leadership()
    partition.become_follower(decided(2, 6, (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        leadership.record_follower_fetch(2, 3, 0, 3)
    with pytest.raises(ProtocolError) as raised:
        leadership.record_follower_fetch(2, 3, 0, 3, 5)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert leadership.remote[2].log_end_offset == -1


def test_the_position_of_a_replica_that_is_not_assigned_counts_for_nothing():
    partition = leading(b"abc", isr=(1,))
    assert partition.leadership().record_follower_fetch(9, 3, 0, 3) is False
    assert partition.leadership().isr.proposed is None


def test_a_replica_leaves_the_isr_after_the_lag_time():
    clock = ReplicaClock()
    partition = leading(b"abcdef", clock=clock)
    clock.now += 6_000
    fetch(partition, 2, 6)
    clock.now += 6_000
    fetch(partition, 2, 6)
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed == (1, 2)
    assert partition.high_watermark == 0  # not before ZooKeeper has it
    written(partition)
    assert (partition.leadership().isr.members, partition.high_watermark) == ((1, 2), 6)
    assert partition.isr_changes == (1, 0)


def test_a_replica_that_has_everything_stays_however_long_nothing_is_written():
    clock = ReplicaClock()
    partition = leading(b"abcdef", clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed is None


def test_having_what_the_leader_had_at_the_previous_fetch_counts_as_caught_up_then():
    clock = ReplicaClock()
    partition = leading(b"abc", isr=(1, 2), clock=clock)
    fetch(partition, 2, 3)
    for _ in range(5):
        clock.now += 4_000
        partition.leadership().append(b"x")
        fetch(partition, 2, partition.log_end_offset - 1)  # always one behind, never standing still
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed is None


def test_an_isr_change_whose_fate_is_unknown_holds_the_high_watermark_for_both():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.leadership().append(b"gh")
    fetch(partition, 2, 8)
    # A controller may find broker 3 in the stored ISR already.
    assert partition.high_watermark == 6
    assert partition.leadership().proposed_isr() == partition.leadership().proposed_isr()


def test_a_refused_isr_change_adopts_what_is_stored():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.leadership().proposed_isr()
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=8)
    assert not partition.leadership().resolve_isr(
        asked, IsrUpdate(stored, written=False, still_leader=True)
    )
    assert (partition.leadership().isr.members, partition.leadership().isr.zk_version) == (
        (1, 2),
        8,
    )
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr().zk_version == 8


def test_a_leader_looks_again_when_another_has_written_what_is_stored():
    partition = leading(b"abcdef", isr=(1, 2, 3))
    known = partition.leadership().isr.zk_version
    for epoch, version in ((4, known + 1), (6, known + 1), (5, known)):
        partition.leadership().record_stored_version(epoch, version)
        assert partition.leadership().proposed_isr() is None
    partition.leadership().record_stored_version(5, known + 1)
    asked = partition.leadership().proposed_isr()
    assert (asked.isr, asked.zk_version) == ((1, 2, 3), known)
    partition.leadership().record_stored_version(5, known + 1)
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=known + 1)
    assert partition.leadership().resolve_isr(
        asked, IsrUpdate(stored, written=False, still_leader=True)
    )
    assert (partition.leadership().isr.members, partition.leadership().isr.zk_version) == (
        (1, 2),
        known + 1,
    )
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr().isr == (1, 2, 3)


def test_a_leader_that_was_replaced_proposes_nothing_more():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.leadership().proposed_isr()
    newer = LeaderAndIsr(2, 6, (2,), 2, zk_version=9)
    partition.leadership().resolve_isr(asked, IsrUpdate(newer, written=False, still_leader=False))
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr() is None


def test_a_leader_that_was_replaced_does_not_move_its_high_watermark():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.leadership().proposed_isr()
    clock.now += 20_000
    partition.leadership().append(b"gh")
    # The change was stored, its answer lost; broker 3 was elected from it, without "gh".
    newer = LeaderAndIsr(3, 6, (3,), 2, zk_version=9)
    partition.leadership().resolve_isr(asked, IsrUpdate(newer, written=False, still_leader=False))
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_the_answer_to_a_change_of_an_earlier_epoch_changes_nothing():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.leadership().proposed_isr()
    partition.become_leader(decided(1, 6, (1,), zk_version=30))
    stored = LeaderAndIsr(1, 5, (1, 2, 3), 1, zk_version=8)
    partition.leadership().resolve_isr(asked, IsrUpdate(stored, written=True, still_leader=True))
    assert (partition.leadership().isr.members, partition.leadership().isr.zk_version) == ((1,), 30)


def test_too_few_replicas_in_sync_refuse_acks_all_before_anything_is_appended():
    log = EntryLog(min_insync_replicas=2)
    partition = leading(b"", isr=(1,), log=log)
    with pytest.raises(NotEnoughReplicas):
        partition.leadership().append(b"x", acks=-1)
    assert log.log_end_offset == 0
    partition.leadership().append(b"x", acks=1)
    assert log.log_end_offset == 1


def test_replicated_when_everybody_in_sync_has_it():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    assert not replicated()
    fetch(partition, 3, 3)
    assert replicated()


def test_an_isr_that_shrank_after_the_append_is_error_20():
    clock = ReplicaClock()
    partition = leading(b"", isr=(1, 2), log=EntryLog(min_insync_replicas=2), clock=clock)
    replicated = append_for_all(partition)
    clock.now += 60_000
    partition.leadership().check_isr()
    assert not replicated()
    written(partition)
    with pytest.raises(ProtocolError) as raised:
        replicated()
    assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_the_same_leader_in_a_new_epoch_goes_on():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    assert partition.become_leader(decided(1, 6, (1, 2))) is False
    assert partition.leadership().epoch_start == 3
    assert partition.high_watermark == 3  # the position of broker 2 was kept
    assert replicated()


def test_what_was_fetched_before_an_epoch_of_another_leader_counts_for_nothing():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    # Another one led in epoch 6, which this broker did not hear of; broker 2 cut its log by it.
    assert partition.become_leader(decided(1, 7, (1, 2))) is False
    assert partition.high_watermark == 0
    assert not replicated()
    fetch(partition, 2, 3)
    assert replicated(), "the log here was not cut"


def test_a_new_leader_knows_no_positions():
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(decided(1, 5))
    assert partition.high_watermark == 3
    assert partition.leadership().remote[2].log_end_offset == -1
    assert partition.log.epoch_starts == [(5, 10)]


def test_records_are_deleted_up_to_the_high_watermark():
    partition = leading(b"abcdef")
    fetch(partition, 2, 4)
    fetch(partition, 3, 4)
    with pytest.raises(OffsetOutOfRange):
        partition.leadership().delete_records_before(5)
    assert partition.leadership().delete_records_before(2) == 2
    assert partition.leadership().low_watermark({1, 2, 3}) == 0
    assert partition.leadership().low_watermark({1}) == 2, (
        "of brokers that are gone nothing is waited for"
    )
    assert partition.leadership().delete_records_before(-1) == 4


def test_nothing_of_a_compacted_log_is_deleted_by_offset():
    partition = leading(b"abcdef")
    partition.log.cleanup_policy = "compact"
    with pytest.raises(ProtocolError, match=r"compact,delete") as refused:
        partition.leadership().delete_records_before(0)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    partition.log.cleanup_policy = "compact,delete"
    assert partition.leadership().delete_records_before(0) == 0
