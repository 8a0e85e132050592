"""A leader's appends, high watermark, ISR and reads."""

import pytest

from tests.support.clocks import Clock
from tests.support.leading import append_for_all, fetch, leading, resolve_written
from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.errors import (
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderForPartition,
    OffsetOutOfRange,
    ProtocolError,
)
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.reads import ReadEnd


def growing(clock=None):
    """Return a partition with the ISR of 1 and 2, and the proposed one, with 3."""
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    return partition, partition.leadership().proposed_isr()


def isr_of(partition):
    """Return the members of the ISR and the version of its state."""
    isr = partition.leadership().isr
    return isr.members, isr.zk_version


def test_read_end_depends_on_reader():
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


def test_read_above_high_watermark_is_empty():
    partition = leading(b"abcdef")
    fetch(partition, 2, 3)
    fetch(partition, 3, 3)
    assert partition.leadership().read(5, 100).found.values == b""
    with pytest.raises(OffsetOutOfRange):
        partition.leadership().read(7, 100)


def test_single_replica_advances_high_watermark_at_once():
    partition = make_partition()
    partition.become_leader(decided(1, 0, (1,), (1,)))
    partition.leadership().append(b"abc")
    assert partition.high_watermark == 3


def test_high_watermark_is_smallest_isr_log_end_and_only_grows():
    partition = leading(b"abcdef")
    assert partition.high_watermark == 0
    fetch(partition, 2, 6)
    assert partition.high_watermark == 0
    fetch(partition, 3, 4)
    assert partition.high_watermark == 4
    fetch(partition, 3, 2)
    assert partition.high_watermark == 4


def test_high_watermark_waits_for_proposed_replica():
    clock = Clock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 3, 6)
    assert partition.leadership().isr.proposed == (1, 2, 3)
    partition.leadership().append(b"gh")
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_replica_joins_isr_when_zookeeper_has_stored_it():
    proposals = []
    partition = leading(b"abcdef", isr=(1, 2), isr_proposed=proposals.append)
    fetch(partition, 2, 6)
    fetch(partition, 3, 5)
    assert proposals == []  # it lacks a message below the high watermark
    fetch(partition, 3, 6)
    assert proposals == [partition.leading]
    assert partition.leadership().isr.members == (1, 2)
    assert resolve_written(partition) is True
    assert partition.leadership().isr.members == (1, 2, 3)
    assert (partition.leadership().isr.zk_version, partition.isr_changes) == (1, (0, 1))


def test_replica_below_epoch_start_is_not_proposed():
    # The high watermark of a new leader may be behind what its predecessor acknowledged.
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(decided(1, 5, (1, 2)))
    fetch(partition, 3, 5)
    assert partition.leadership().isr.proposed is None
    fetch(partition, 3, 10)
    assert partition.leadership().isr.proposed == (1, 2, 3)


@pytest.mark.parametrize(("epoch", "code"), [(4, 74), (6, 75)])
def test_fetch_of_other_epoch_is_refused(epoch, code):
    partition = leading(b"abc", isr=(1, 2), epoch=5)
    with pytest.raises(ProtocolError) as raised:
        partition.leadership().record_follower_fetch(2, 3, 0, 3, epoch)
    assert raised.value.code == code
    assert partition.leadership().remote[2].log_end_offset == -1
    assert partition.high_watermark == 0
    assert partition.leadership().record_follower_fetch(2, 3, 0, 3, 5)
    assert partition.leadership().remote[2].log_end_offset == 3


def test_fetch_after_lost_leadership_is_refused():
    partition = leading(b"abc", isr=(1, 2))
    leadership = partition.leadership()
    partition.become_follower(decided(2, 6, (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        leadership.record_follower_fetch(2, 3, 0, 3)
    with pytest.raises(ProtocolError) as raised:
        leadership.record_follower_fetch(2, 3, 0, 3, 5)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert leadership.remote[2].log_end_offset == -1


def test_fetch_of_unassigned_replica_is_ignored():
    partition = leading(b"abc", isr=(1,))
    assert partition.leadership().record_follower_fetch(9, 3, 0, 3) is False
    assert partition.leadership().isr.proposed is None


def test_lagging_replica_leaves_isr_after_lag_time():
    clock = Clock()
    partition = leading(b"abcdef", clock=clock)
    clock.now += 6_000
    fetch(partition, 2, 6)
    clock.now += 6_000
    fetch(partition, 2, 6)
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed == (1, 2)
    assert partition.high_watermark == 0  # not before ZooKeeper has stored it
    resolve_written(partition)
    assert (partition.leadership().isr.members, partition.high_watermark) == ((1, 2), 6)
    assert partition.isr_changes == (1, 0)


def test_complete_replica_stays_in_isr_without_fetches():
    clock = Clock()
    partition = leading(b"abcdef", clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed is None


def test_replica_one_fetch_behind_stays_in_isr():
    clock = Clock()
    partition = leading(b"abc", isr=(1, 2), clock=clock)
    fetch(partition, 2, 3)
    for _ in range(5):
        clock.now += 4_000
        partition.leadership().append(b"x")
        fetch(partition, 2, partition.log_end_offset - 1)  # always one record behind
    partition.leadership().check_isr()
    assert partition.leadership().isr.proposed is None


def test_pending_isr_change_holds_high_watermark_for_both_isrs():
    clock = Clock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.leadership().append(b"gh")
    fetch(partition, 2, 8)
    # A controller may find broker 3 in the stored ISR already.
    assert partition.high_watermark == 6
    assert partition.leadership().proposed_isr() == partition.leadership().proposed_isr()


def test_refused_isr_change_adopts_stored_state():
    partition, proposed = growing()
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=8)
    assert not partition.leadership().resolve_isr(
        proposed, IsrUpdate(stored, written=False, still_leader=True)
    )
    assert isr_of(partition) == ((1, 2), 8)
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr().zk_version == 8


def test_newer_stored_version_is_read_and_adopted():
    partition = leading(b"abcdef", isr=(1, 2, 3))
    known = partition.leadership().isr.zk_version
    for epoch, version in ((4, known + 1), (6, known + 1), (5, known)):
        partition.leadership().record_stored_version(epoch, version)
        assert partition.leadership().proposed_isr() is None
    partition.leadership().record_stored_version(5, known + 1)
    proposed = partition.leadership().proposed_isr()
    assert (proposed.isr, proposed.zk_version) == ((1, 2, 3), known)
    partition.leadership().record_stored_version(5, known + 1)
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=known + 1)
    assert partition.leadership().resolve_isr(
        proposed, IsrUpdate(stored, written=False, still_leader=True)
    )
    assert isr_of(partition) == ((1, 2), known + 1)
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr().isr == (1, 2, 3)


def test_superseded_leader_proposes_no_isr():
    partition, proposed = growing()
    newer = LeaderAndIsr(2, 6, (2,), 2, zk_version=9)
    partition.leadership().resolve_isr(
        proposed, IsrUpdate(newer, written=False, still_leader=False)
    )
    fetch(partition, 3, 6)
    assert partition.leadership().proposed_isr() is None


def test_superseded_leader_keeps_high_watermark():
    clock = Clock()
    partition, proposed = growing(clock)
    clock.now += 20_000
    partition.leadership().append(b"gh")
    # The change was stored, its answer lost; broker 3 was elected from it, without "gh".
    newer = LeaderAndIsr(3, 6, (3,), 2, zk_version=9)
    partition.leadership().resolve_isr(
        proposed, IsrUpdate(newer, written=False, still_leader=False)
    )
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_isr_update_of_earlier_epoch_is_ignored():
    partition, proposed = growing()
    partition.become_leader(decided(1, 6, (1,), zk_version=30))
    stored = LeaderAndIsr(1, 5, (1, 2, 3), 1, zk_version=8)
    partition.leadership().resolve_isr(proposed, IsrUpdate(stored, written=True, still_leader=True))
    assert isr_of(partition) == ((1,), 30)


def test_acks_all_is_refused_with_too_few_replicas_in_sync():
    log = EntryLog(min_insync_replicas=2)
    partition = leading(b"", isr=(1,), log=log)
    with pytest.raises(NotEnoughReplicas):
        partition.leadership().append(b"x", acks=-1)
    assert log.log_end_offset == 0
    partition.leadership().append(b"x", acks=1)
    assert log.log_end_offset == 1


def test_append_is_replicated_when_whole_isr_has_it():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    assert not replicated()
    fetch(partition, 3, 3)
    assert replicated()


def test_isr_shrunk_after_append_raises_not_enough_replicas_after_append():
    clock = Clock()
    partition = leading(b"", isr=(1, 2), log=EntryLog(min_insync_replicas=2), clock=clock)
    replicated = append_for_all(partition)
    clock.now += 60_000
    partition.leadership().check_isr()
    assert not replicated()
    resolve_written(partition)
    with pytest.raises(ProtocolError) as raised:
        replicated()
    assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_new_epoch_of_same_leader_keeps_positions():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    assert partition.become_leader(decided(1, 6, (1, 2))) is False
    assert partition.leadership().epoch_start == 3
    assert partition.high_watermark == 3  # the position of broker 2 was kept
    assert replicated()


def test_missed_epoch_of_other_leader_resets_positions():
    partition = leading(b"")
    replicated = append_for_all(partition)
    fetch(partition, 2, 3)
    # Another broker led in epoch 6, which this broker missed; broker 2 truncated its log then.
    assert partition.become_leader(decided(1, 7, (1, 2))) is False
    assert partition.high_watermark == 0
    assert not replicated()
    fetch(partition, 2, 3)
    assert replicated(), "this log was not truncated"


def test_new_leader_has_no_positions():
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(decided(1, 5))
    assert partition.high_watermark == 3
    assert partition.leadership().remote[2].log_end_offset == -1
    assert partition.log.epochs.all() == [(5, 10)]


def test_records_are_deleted_up_to_high_watermark():
    partition = leading(b"abcdef")
    fetch(partition, 2, 4)
    fetch(partition, 3, 4)
    with pytest.raises(OffsetOutOfRange):
        partition.leadership().delete_records_before(5)
    assert partition.leadership().delete_records_before(2) == 2
    assert partition.leadership().low_watermark({1, 2, 3}) == 0
    assert partition.leadership().low_watermark({1}) == 2, "dead brokers do not count"
    assert partition.leadership().delete_records_before(-1) == 4


def test_delete_records_of_compacted_log_is_refused():
    partition = leading(b"abcdef")
    partition.log.cleanup_policy = "compact"
    with pytest.raises(ProtocolError, match=r"compact,delete") as refused:
        partition.leadership().delete_records_before(0)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    partition.log.cleanup_policy = "compact,delete"
    assert partition.leadership().delete_records_before(0) == 0
