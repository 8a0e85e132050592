"""How roles begin and end, and what is asked of one that is over."""

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


def test_the_checkpointed_high_watermark_is_bounded_by_the_log():
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
def test_what_was_not_replicated_when_the_role_changed_never_is(change, error):
    partition = leading(b"")
    waiting = Counter()
    replicated = append_for_all(partition)
    partition.waiters.watch_high_watermark(waiting, 2)
    change(partition)
    assert waiting.woken == 1
    with pytest.raises(error):
        replicated()


def test_an_append_of_an_earlier_leadership_is_not_taken_for_replicated():
    partition = leading(b"")
    replicated = append_for_all(partition)
    partition.become_follower(decided(2, 6))
    partition.following().truncate_to(0)
    partition.become_leader(decided(1, 7, (1,)))
    partition.leadership().append(b"other")
    with pytest.raises(NotLeaderForPartition):
        replicated()


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_epoch_is_refused_with_its_code(epoch, code):
    with pytest.raises(ProtocolError) as raised:
        leading().leadership(epoch)
    assert raised.value.code == code


def test_replicas_are_compared_under_every_leader():
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


def test_the_epoch_is_checked_before_the_leadership():
    partition = make_partition()
    partition.become_follower(decided(2, 5))
    with pytest.raises(ProtocolError) as raised:
        partition.leadership(4)
    assert raised.value.code == ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(NotLeaderForPartition):
        partition.leadership(5)
    with pytest.raises(NotLeaderForPartition):
        partition.leadership().append(b"x")


def test_a_leader_appends_nothing_as_follower():
    with pytest.raises(NotLeaderForPartition):
        leading(b"").following()


def test_each_operation_is_woken_by_what_it_waits_for():
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


def test_roles():
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
    """A log whose disk takes its time."""

    def begin_epoch(self, epoch, *, may_fall=False):
        super().begin_epoch(epoch)
        self.meanwhile()
        super().begin_epoch(epoch)


def test_a_directory_that_fails_while_a_role_begins_leaves_the_partition_offline():
    # The directory fails, and is marked, while the epoch is written to it: in the task that makes
    # the log, for a partition that the manager does not know yet; or in another one.
    log = WaitingLog()
    log.meanwhile = lambda: setattr(log, "offline", "no disk")
    partition = make_partition(log=log)
    with pytest.raises(StorageError):
        partition.become_leader(decided(1, 0))
    assert partition.leading is None


def test_a_mark_of_a_failed_directory_is_not_lost_to_a_role_that_begins():
    log, marks = WaitingLog(), []
    partition = make_partition(log=log, runtime=get_runtime("gevent"))

    def fail():
        # As long as the role begins, the mark waits.
        marks.append(gevent.spawn(partition.mark_offline))
        gevent.sleep(0)

    log.meanwhile = fail
    partition.become_leader(decided(1, 0))
    gevent.joinall(marks, raise_error=True)
    assert partition.offline
    with pytest.raises(StorageError):
        partition.leadership()
