"""A partition's roles, its high watermark, its ISR, and who sees how far."""

import pytest

from tests.support.replicas import EntryLog, ReplicaClock, make_partition, told
from zkbroker.errors import (
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderForPartition,
    OffsetOutOfRange,
    ProtocolError,
    StorageError,
    UnknownTopicOrPartition,
)
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.partition import ReadEnd, Role


class Counter:
    """Stands for a delayed operation; counts how often it was woken."""

    def __init__(self):
        self.woken = 0

    def wake(self):
        self.woken += 1


def leading(values=b"abcdef", *, isr=(1, 2, 3), epoch=5, **more):
    """Broker 1 leads t-0 with replicas on 2 and 3, and appended `values` in this epoch."""
    partition = make_partition(**more)
    partition.become_leader(told(1, epoch, isr))
    if values:
        partition.append(values)
    return partition


def fetch(partition, replica_id, offset):
    found = partition.read(offset, 100, reader=ReadEnd.LOG_END)
    partition.note_fetch(replica_id, offset, 0, found.log_end_offset)
    return found


def written(partition):
    """What was proposed, as stored in ZooKeeper."""
    asked = partition.proposed_isr()
    stored = LeaderAndIsr(
        asked.leader, asked.leader_epoch, asked.isr, asked.controller_epoch, asked.zk_version + 1
    )
    return partition.resolve_isr(asked, IsrUpdate(stored, written=True, still_leader=True))


def test_each_reader_sees_its_end():
    log = EntryLog()
    partition = leading(b"abcdefghij", log=log)
    fetch(partition, 2, 7)
    fetch(partition, 3, 4)
    log.first_unstable_offset = 2
    seen = {reader: partition.read(0, 100, reader=reader).found.values for reader in ReadEnd}
    assert seen == {
        ReadEnd.LOG_END: b"abcdefghij",
        ReadEnd.HIGH_WATERMARK: b"abcd",
        ReadEnd.LAST_STABLE: b"ab",
    }
    found = partition.read(0, 100)
    assert (found.high_watermark, found.last_stable_offset, found.log_end_offset) == (4, 2, 10)


def test_a_reader_between_high_watermark_and_log_end_gets_nothing_and_no_error():
    partition = leading(b"abcdef")
    fetch(partition, 2, 3)
    fetch(partition, 3, 3)
    assert partition.read(5, 100).found.values == b""
    with pytest.raises(OffsetOutOfRange):
        partition.read(7, 100)


def test_without_another_replica_everything_is_visible_at_once():
    partition = make_partition()
    partition.become_leader(told(1, 0, (1,), (1,)))
    partition.append(b"abc")
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


def test_the_checkpointed_high_watermark_is_bounded_by_the_log():
    assert make_partition(log=EntryLog([(0, 1)] * 5), high_watermark=9).high_watermark == 5
    assert make_partition(log=EntryLog([(0, 1)] * 5, log_start_offset=3)).high_watermark == 3


def test_a_replica_that_keeps_up_is_waited_for_before_it_is_in_sync():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 3, 6)
    assert partition.isr.proposed == (1, 2, 3)
    partition.append(b"gh")
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_a_replica_enters_the_isr_when_zookeeper_has_it():
    proposals = []
    partition = leading(b"abcdef", isr=(1, 2), isr_proposed=proposals.append)
    fetch(partition, 2, 6)
    fetch(partition, 3, 5)
    assert proposals == []  # it lacks a message below the high watermark
    fetch(partition, 3, 6)
    assert proposals == [partition]
    assert partition.isr.members == (1, 2)
    assert written(partition) is True
    assert partition.isr.members == (1, 2, 3)
    assert (partition.isr.zk_version, partition.expands) == (1, 1)


def test_a_replica_that_misses_the_start_of_the_epoch_stays_out():
    # The high watermark of a new leader may be behind what its predecessor acknowledged.
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(told(1, 5, (1, 2)))
    fetch(partition, 3, 5)
    assert partition.isr.proposed is None
    fetch(partition, 3, 10)
    assert partition.isr.proposed == (1, 2, 3)


@pytest.mark.parametrize(("epoch", "code"), [(4, 74), (6, 75)])
def test_a_fetch_of_another_epoch_is_not_noted(epoch, code):
    partition = leading(b"abc", isr=(1, 2), epoch=5)
    with pytest.raises(ProtocolError) as raised:
        partition.note_fetch(2, 3, 0, 3, epoch)
    assert raised.value.code == code
    assert partition.remote(2).log_end_offset == -1
    assert partition.high_watermark == 0
    assert partition.note_fetch(2, 3, 0, 3, 5)
    assert partition.remote(2).log_end_offset == 3


def test_a_fetch_is_not_noted_where_another_broker_leads_by_now():
    partition = leading(b"abc", isr=(1, 2))
    partition.become_follower(told(2, 6, (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        partition.note_fetch(2, 3, 0, 3)
    assert partition.remote(2).log_end_offset == -1


def test_the_position_of_a_replica_that_is_not_assigned_counts_for_nothing():
    partition = leading(b"abc", isr=(1,))
    assert partition.note_fetch(9, 3, 0, 3) is False
    assert partition.isr.proposed is None


def test_a_replica_leaves_the_isr_after_the_lag_time():
    clock = ReplicaClock()
    partition = leading(b"abcdef", clock=clock)
    clock.now += 6_000
    fetch(partition, 2, 6)
    clock.now += 6_000
    fetch(partition, 2, 6)
    partition.check_isr()
    assert partition.isr.proposed == (1, 2)
    assert partition.high_watermark == 0  # not before ZooKeeper has it
    written(partition)
    assert (partition.isr.members, partition.high_watermark, partition.shrinks) == ((1, 2), 6, 1)


def test_a_replica_that_has_everything_stays_however_long_nothing_is_written():
    clock = ReplicaClock()
    partition = leading(b"abcdef", clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.check_isr()
    assert partition.isr.proposed is None


def test_having_what_the_leader_had_at_the_previous_fetch_counts_as_caught_up_then():
    clock = ReplicaClock()
    partition = leading(b"abc", isr=(1, 2), clock=clock)
    fetch(partition, 2, 3)
    for _ in range(5):
        clock.now += 4_000
        partition.append(b"x")
        fetch(partition, 2, partition.log_end_offset - 1)  # always one behind, never standing still
    partition.check_isr()
    assert partition.isr.proposed is None


def test_an_isr_change_whose_fate_is_unknown_holds_the_high_watermark_for_both():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    clock.now += 60_000
    partition.append(b"gh")
    fetch(partition, 2, 8)
    # A controller may find broker 3 in the stored ISR already.
    assert partition.high_watermark == 6
    assert partition.proposed_isr() == partition.proposed_isr()


def test_a_refused_isr_change_adopts_what_is_stored():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.proposed_isr()
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=8)
    assert not partition.resolve_isr(asked, IsrUpdate(stored, written=False, still_leader=True))
    assert (partition.isr.members, partition.isr.zk_version) == ((1, 2), 8)
    fetch(partition, 3, 6)
    assert partition.proposed_isr().zk_version == 8


def test_a_leader_looks_again_when_another_has_written_what_is_stored():
    partition = leading(b"abcdef", isr=(1, 2, 3))
    known = partition.isr.zk_version
    for epoch, version in ((4, known + 1), (6, known + 1), (5, known)):
        partition.note_stored_version(epoch, version)
        assert partition.proposed_isr() is None
    partition.note_stored_version(5, known + 1)
    asked = partition.proposed_isr()
    assert (asked.isr, asked.zk_version) == ((1, 2, 3), known)
    partition.note_stored_version(5, known + 1)
    stored = LeaderAndIsr(1, 5, (1, 2), 1, zk_version=known + 1)
    assert partition.resolve_isr(asked, IsrUpdate(stored, written=False, still_leader=True))
    assert (partition.isr.members, partition.isr.zk_version) == ((1, 2), known + 1)
    fetch(partition, 3, 6)
    assert partition.proposed_isr().isr == (1, 2, 3)


def test_a_leader_that_was_replaced_proposes_nothing_more():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.proposed_isr()
    newer = LeaderAndIsr(2, 6, (2,), 2, zk_version=9)
    partition.resolve_isr(asked, IsrUpdate(newer, written=False, still_leader=False))
    fetch(partition, 3, 6)
    assert partition.proposed_isr() is None


def test_a_leader_that_was_replaced_does_not_move_its_high_watermark():
    clock = ReplicaClock()
    partition = leading(b"abcdef", isr=(1, 2), clock=clock)
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.proposed_isr()
    clock.now += 20_000
    partition.append(b"gh")
    # The change was stored, its answer lost; broker 3 was elected from it, without "gh".
    newer = LeaderAndIsr(3, 6, (3,), 2, zk_version=9)
    partition.resolve_isr(asked, IsrUpdate(newer, written=False, still_leader=False))
    fetch(partition, 2, 8)
    assert partition.high_watermark == 6


def test_a_follower_waits_for_the_flush_policy():
    partition = make_partition()
    partition.become_follower(told(2, 5))
    partition.append_from_leader([(5, 1), (5, 2)], 5)
    partition.wait_flushed(5)
    assert partition.log.flush_waits == []
    partition.log.flush_messages = 1
    partition.wait_flushed(5)
    assert partition.log.flush_waits == [None]
    partition.log.recovery_point = 2
    partition.wait_flushed(5)
    assert partition.log.flush_waits == [None]


def test_the_answer_to_a_change_of_an_earlier_epoch_changes_nothing():
    partition = leading(b"abcdef", isr=(1, 2))
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    asked = partition.proposed_isr()
    partition.become_leader(told(1, 6, (1,), zk_version=30))
    stored = LeaderAndIsr(1, 5, (1, 2, 3), 1, zk_version=8)
    partition.resolve_isr(asked, IsrUpdate(stored, written=True, still_leader=True))
    assert (partition.isr.members, partition.isr.zk_version) == ((1,), 30)


# -- acks=all


def test_too_few_replicas_in_sync_refuse_acks_all_before_anything_is_appended():
    log = EntryLog(min_insync_replicas=2)
    partition = leading(b"", isr=(1,), log=log)
    with pytest.raises(NotEnoughReplicas):
        partition.append(b"x", acks=-1)
    assert log.log_end_offset == 0
    partition.append(b"x", acks=1)
    assert log.log_end_offset == 1


def test_replicated_when_everybody_in_sync_has_it():
    partition = leading(b"")
    appended = partition.append(b"abc", acks=-1)
    fetch(partition, 2, 3)
    assert not appended.replicated()
    fetch(partition, 3, 3)
    assert appended.replicated()


def test_an_isr_that_shrank_after_the_append_is_error_20():
    clock = ReplicaClock()
    partition = leading(b"", isr=(1, 2), log=EntryLog(min_insync_replicas=2), clock=clock)
    appended = partition.append(b"abc", acks=-1)
    clock.now += 60_000
    partition.check_isr()
    assert not appended.replicated()
    written(partition)
    with pytest.raises(ProtocolError) as raised:
        appended.replicated()
    assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda p: p.become_follower(told(2, 6)), NotLeaderForPartition),
        (lambda p: p.stop(), NotLeaderForPartition),
        (lambda p: p.mark_deleted(), UnknownTopicOrPartition),
        (lambda p: p.mark_offline(), StorageError),
    ],
)
def test_what_was_not_replicated_when_the_role_changed_never_is(change, error):
    partition = leading(b"")
    waiting = Counter()
    appended = partition.append(b"abc", acks=-1)
    partition.watch_high_watermark(waiting, appended.result.last_offset)
    change(partition)
    assert waiting.woken == 1
    with pytest.raises(error):
        appended.replicated()


def test_an_append_of_an_earlier_leadership_is_not_taken_for_replicated():
    partition = leading(b"")
    appended = partition.append(b"abc", acks=-1)
    partition.become_follower(told(2, 6))
    partition.truncate_to(0, 6)
    partition.become_leader(told(1, 7, (1,)))
    partition.append(b"other")
    with pytest.raises(NotLeaderForPartition):
        appended.replicated()


def test_the_same_leader_in_a_new_epoch_goes_on():
    partition = leading(b"")
    appended = partition.append(b"abc", acks=-1)
    fetch(partition, 2, 3)
    assert partition.become_leader(told(1, 6, (1, 2))) is False
    assert partition.epoch_start == 3
    assert partition.high_watermark == 3  # the position of broker 2 was kept
    assert appended.replicated()


def test_what_was_fetched_before_an_epoch_of_another_leader_counts_for_nothing():
    partition = leading(b"")
    appended = partition.append(b"abc", acks=-1)
    fetch(partition, 2, 3)
    # Another one led in epoch 6, which this broker did not hear of; broker 2 cut its log by it.
    assert partition.become_leader(told(1, 7, (1, 2))) is False
    assert partition.high_watermark == 0
    assert not appended.replicated()
    fetch(partition, 2, 3)
    assert appended.replicated(), "the log here was not cut"


def test_a_new_leader_knows_no_positions():
    partition = make_partition(log=EntryLog([(4, 1)] * 10), high_watermark=3)
    partition.become_leader(told(1, 5))
    assert partition.high_watermark == 3
    assert partition.remote(2).log_end_offset == -1
    assert partition.log.epoch_starts == [(5, 10)]


# -- asking the wrong one


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_epoch_is_told(epoch, code):
    with pytest.raises(ProtocolError) as raised:
        leading().read(0, 100, current_leader_epoch=epoch)
    assert raised.value.code == code


def test_the_epoch_is_checked_before_the_leadership():
    partition = make_partition()
    partition.become_follower(told(2, 5))
    with pytest.raises(ProtocolError) as raised:
        partition.require_leader(4)
    assert raised.value.code == ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(NotLeaderForPartition):
        partition.require_leader(5)
    with pytest.raises(NotLeaderForPartition):
        partition.append(b"x")


# -- following


def test_a_follower_takes_bytes_and_marks_of_its_leader_alone():
    partition = make_partition()
    partition.become_follower(told(2, 5))
    partition.append_from_leader([(5, 97), (5, 98)], 5)
    partition.follow_marks(9, 0, 5)
    assert partition.high_watermark == 2
    for act in (
        lambda: partition.append_from_leader([(4, 99)], 4),
        lambda: partition.truncate_to(0, 4),
        lambda: partition.follow_marks(9, 0, 4),
        lambda: partition.start_anew_at(9, 4),
    ):
        with pytest.raises(NotLeaderForPartition):
            act()
    assert partition.log.values(0, 9) == b"ab"


def test_a_follower_takes_the_leaders_log_start():
    partition = make_partition(log=EntryLog([(5, 1)] * 6))
    partition.become_follower(told(2, 5))
    partition.follow_marks(2, 4, 5)
    assert (partition.log_start_offset, partition.high_watermark) == (4, 4)


def test_truncation_takes_the_high_watermark_along():
    partition = make_partition(log=EntryLog([(5, 1)] * 6), high_watermark=5)
    partition.become_follower(told(2, 6))
    assert partition.truncate_to(3, 6) == 3
    assert partition.high_watermark == 3
    partition.start_anew_at(8, 6)
    assert (partition.log_start_offset, partition.high_watermark) == (8, 8)


def test_a_leader_appends_nothing_as_follower():
    with pytest.raises(NotLeaderForPartition):
        leading(b"").append_from_leader([(5, 1)], 5)


# -- the old end


def test_records_are_deleted_up_to_the_high_watermark():
    partition = leading(b"abcdef")
    fetch(partition, 2, 4)
    fetch(partition, 3, 4)
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records_before(5)
    assert partition.delete_records_before(2) == 2
    assert partition.low_watermark({1, 2, 3}) == 0
    assert partition.low_watermark({1}) == 2, "of brokers that are gone nothing is waited for"
    assert partition.delete_records_before(-1) == 4


def test_nothing_of_a_compacted_log_is_deleted_by_offset():
    partition = leading(b"abcdef")
    partition.log.cleanup_policy = "compact"
    with pytest.raises(ProtocolError, match=r"compact,delete") as refused:
        partition.delete_records_before(0)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    partition.log.cleanup_policy = "compact,delete"
    assert partition.delete_records_before(0) == 0


# -- who waits


def test_each_operation_is_woken_by_what_it_waits_for():
    partition = leading(b"")
    follower, consumer, produce = Counter(), Counter(), Counter()
    partition.watch_appends(follower)
    partition.watch_high_watermark(consumer)
    partition.watch_high_watermark(produce, 3)
    partition.append(b"abc")
    assert (follower.woken, consumer.woken, produce.woken) == (1, 0, 0)
    fetch(partition, 2, 3)
    fetch(partition, 3, 3)
    assert (follower.woken, consumer.woken, produce.woken) == (1, 1, 0)
    partition.unwatch(consumer)
    partition.append(b"def")
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    assert (follower.woken, consumer.woken, produce.woken) == (2, 1, 1)


def test_roles():
    partition = make_partition()
    assert partition.role is Role.FOLLOWER
    partition.become_leader(told(1, 0))
    assert (partition.role, partition.under_replicated) == (Role.LEADER, False)
    partition.become_leader(told(1, 1, (1,)))
    assert partition.under_replicated
    partition.become_follower(told(-1, 2))
    assert (partition.role, partition.leader) == (Role.FOLLOWER, -1)
