"""The roles of a partition: how they begin and end, and requests to an ended role."""

import gevent
import pytest

from tests.support.leading import Counter, append_for_all, fetch, leading
from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.errors import (
    ErrorCode,
    NotLeaderForPartition,
    ProtocolError,
    StorageError,
    UnknownTopicOrPartition,
)
from zkbroker.runtime import get_runtime


def test_checkpointed_high_watermark_is_bounded_by_log():
    assert make_partition(log=EntryLog([(0, 1)] * 5), high_watermark=9).high_watermark == 5
    assert make_partition(log=EntryLog([(0, 1)] * 5, log_start_offset=3)).high_watermark == 3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda p: p.become_follower(decided(2, 6)), NotLeaderForPartition),
        (lambda p: p.stop(), NotLeaderForPartition),
        (lambda p: p.mark_deleted(), UnknownTopicOrPartition),
        (lambda p: p.mark_offline(), StorageError),
    ],
)
def test_unreplicated_append_fails_on_role_change(change, error):
    partition = leading(b"")
    waiting = Counter()
    replicated = append_for_all(partition)
    partition.waiters.watch_high_watermark(waiting, 2)
    change(partition)
    assert waiting.woken == 1
    with pytest.raises(error):
        replicated()


def test_append_of_earlier_leadership_does_not_count_as_replicated():
    partition = leading(b"")
    replicated = append_for_all(partition)
    partition.become_follower(decided(2, 6))
    partition.role.truncate_to(0)
    partition.become_leader(decided(1, 7, (1,)))
    partition.leadership().append(b"other")
    with pytest.raises(NotLeaderForPartition):
        replicated()


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_other_leader_epoch_is_refused(epoch, code):
    with pytest.raises(ProtocolError) as raised:
        leading().leadership(epoch)
    assert raised.value.code == code


def test_replica_can_be_read_in_any_role():
    """Genuine brokers let a client of replica id -2 read from any replica (`ReplicaManager`)."""
    partition = make_partition(log=EntryLog([(0, 1)] * 5), high_watermark=3)
    partition.become_follower(decided(2, 5))
    assert partition.readable(5).read(0, 100).high_watermark == 3
    partition.become_leader(decided(1, 6, (1,)))
    role = partition.readable()
    assert role is partition.leading
    with pytest.raises(ProtocolError) as raised:
        partition.readable(5)
    assert raised.value.code == ErrorCode.FENCED_LEADER_EPOCH
    partition.mark_offline()
    with pytest.raises(StorageError):
        partition.readable()
    with pytest.raises(StorageError):
        role.read(0, 100)


def test_leader_epoch_is_checked_before_leadership():
    partition = make_partition()
    partition.become_follower(decided(2, 5))
    with pytest.raises(ProtocolError) as raised:
        partition.leadership(4)
    assert raised.value.code == ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(NotLeaderForPartition):
        partition.leadership(5)
    with pytest.raises(NotLeaderForPartition):
        partition.leadership().append(b"x")


def test_operations_are_woken_by_their_events():
    partition = leading(b"")
    follower, consumer, produce = Counter(), Counter(), Counter()
    partition.waiters.watch_appends(follower)
    partition.waiters.watch_high_watermark(consumer)
    partition.waiters.watch_high_watermark(produce, 3)
    partition.leadership().append(b"abc")
    assert (follower.woken, consumer.woken, produce.woken) == (1, 0, 0)
    fetch(partition, 2, 3)
    fetch(partition, 3, 3)
    assert (follower.woken, consumer.woken, produce.woken) == (1, 1, 0)
    partition.waiters.unwatch(consumer)
    partition.leadership().append(b"def")
    fetch(partition, 2, 6)
    fetch(partition, 3, 6)
    assert (follower.woken, consumer.woken, produce.woken) == (2, 1, 1)


def test_leadership_spans_epochs_and_ends_with_follower_role():
    partition = make_partition()
    assert (partition.role.name, partition.leading) == ("follower", None)
    partition.become_leader(decided(1, 0))
    assert partition.role is partition.leading is partition.leadership()
    first = partition.leading
    partition.become_leader(decided(1, 1, (1,)))
    assert partition.leading is first, "one leadership over two epochs"
    partition.become_follower(decided(-1, 2))
    assert (partition.role.name, partition.leader, partition.leading) == ("follower", -1, None)
    assert first.over


class WaitingLog(EntryLog):
    """A log that runs a function while an epoch is written."""

    def begin_epoch(self, epoch, *, may_fall=False):
        super().begin_epoch(epoch)
        self.during_begin()
        super().begin_epoch(epoch)


def test_directory_failure_during_role_begin_takes_partition_offline():
    # The directory fails while the epoch is written: in the task that creates the log of a
    # partition that the manager does not know yet, or in another task.
    log = WaitingLog()
    log.during_begin = lambda: setattr(log, "offline", "no disk")
    partition = make_partition(log=log)
    with pytest.raises(StorageError):
        partition.become_leader(decided(1, 0))
    assert partition.leading is None


def test_offline_mark_during_role_begin_is_kept():
    log, marks = WaitingLog(), []
    partition = make_partition(log=log, runtime=get_runtime("gevent"))

    def fail():
        # The mark waits until the role has begun.
        marks.append(gevent.spawn(partition.mark_offline))
        gevent.sleep(0)

    log.during_begin = fail
    partition.become_leader(decided(1, 0))
    gevent.joinall(marks, raise_error=True)
    assert partition.offline
    with pytest.raises(StorageError):
        partition.leadership()
