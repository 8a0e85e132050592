"""A Produce request waits once for the acknowledgements of all its partitions."""

import gevent

from tests.support.leading import catch_up
from tests.support.replicas import EntryLog, Park, SteppedRuntime, decided, make_partition
from zkbroker.errors import NotLeaderForPartition, RequestTimedOut, StorageError
from zkbroker.log import TopicPartition
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks, wait_for_log_starts
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.runtime import get_runtime


def partitions(count, **log):
    made = []
    for number in range(count):
        partition = make_partition(
            key=TopicPartition("t", number), log=EntryLog(**log), runtime=get_runtime("gevent")
        )
        partition.become_leader(decided(1, 0, (1, 2), (1, 2)))
        made.append(partition)
    return made


def append(partition, acks=1):
    leadership = partition.leadership()
    return Unacknowledged(leadership, leadership.append(b"x", acks=acks).last_offset)


def wait(appended, acks, timeout_s, park, step_ms=0):
    return wait_for_acks(appended, acks, timeout_s, runtime=SteppedRuntime(step_ms), park=park)


def test_produce_to_16_partitions_waits_once():
    led = partitions(16)
    appended = [append(each, acks=-1) for each in led]

    def catch_up_all():
        for each in led:
            gevent.spawn(catch_up, each)

    park = Park(catch_up_all)
    assert wait(appended, -1, 30.0, park) == [None] * 16
    assert park.times == 1
    assert not any(each.waiters.marks for each in led)


def test_all_partitions_share_one_timeout():
    led = partitions(16, flush_messages=1)
    appended = [append(each, acks=-1) for each in led]
    park = Park()
    results = wait(appended, -1, 10.0, park, step_ms=1000)
    assert all(isinstance(each, RequestTimedOut) for each in results)
    assert park.times == 1
    waited = [each.log.flush_waits[0] for each in led]
    assert waited[0] == 9.0
    assert waited == sorted(waited, reverse=True)
    assert waited[-1] == 0.0


def test_replicated_append_is_acknowledged_without_waiting():
    (partition,) = partitions(1)
    appended = append(partition, acks=-1)
    catch_up(partition)
    park = Park()
    assert wait([appended], -1, 30.0, park) == [None]
    assert park.times == 0


def test_acks_1_waits_only_for_flush_policy():
    (partition,) = partitions(1, flush_messages=1)
    park = Park()
    assert wait([append(partition)], 1, 2.5, park) == [None]
    assert partition.log.flush_waits == [2.5]
    (partition,) = partitions(1)
    assert wait([append(partition)], 1, 2.5, park) == [None]
    assert partition.log.flush_waits == []


def test_failed_flush_is_reported_for_its_partition():
    first, second = partitions(2, flush_messages=1)

    def broken(last_offset, timeout_s=None):
        raise StorageError("no disk")

    first.log.wait_durable = broken
    results = wait([append(first), append(second)], 1, None, Park())
    assert isinstance(results[0], StorageError)
    assert results[1] is None


def test_lost_leadership_does_not_end_wait_for_other_partitions():
    first, second = partitions(2)
    appended = [append(first, acks=-1), append(second, acks=-1)]

    def then():
        gevent.spawn(first.become_follower, decided(2, 1))
        gevent.spawn_later(0.01, catch_up, second)

    results = wait(appended, -1, 30.0, Park(then))
    assert isinstance(results[0], NotLeaderForPartition)
    assert results[1] is None


def test_append_does_not_wake_500_waiting_produces():
    (partition,) = partitions(1)
    operations = []
    for _ in range(500):
        operation = DelayedOperation(get_runtime("gevent"))
        partition.waiters.watch_high_watermark(operation, append(partition).last_offset)
        operations.append(operation)
    woken = []
    for operation in operations:
        operation._event.clear()
        operation._event = type("E", (), {"set": lambda self: woken.append(1)})()
    partition.leadership().append(b"x")  # no progress of the high watermark: no operation is woken
    assert woken == []
    partition.leadership().record_follower_fetch(2, 250, 0, partition.log_end_offset)
    assert len(woken) == 250


def test_timeout_after_session_expiry_is_not_leader_for_partition():
    session_over = [False]
    led = make_partition(runtime=get_runtime("gevent"), session_over=lambda: session_over[0])
    led.become_leader(decided(1, 0, (1, 2), (1, 2)))
    appended = [append(led, acks=-1)]
    assert isinstance(wait(appended, -1, 1.1, Park(), step_ms=1000)[0], RequestTimedOut)
    session_over[0] = True
    (error,) = wait(appended, -1, 1.1, Park(), step_ms=1000)
    assert isinstance(error, NotLeaderForPartition)


def fetch_with_log_start(partition, start, leader_end=3):
    """Record a follower's fetch with its log start offset."""
    partition.leadership().record_follower_fetch(2, leader_end, start, leader_end)


def wait_deleted(deletions, park, live=(1, 2), timeout_s=10.0):
    return wait_for_log_starts(
        deletions,
        timeout_s,
        lambda: live,
        runtime=SteppedRuntime(1000),
        park=park,
    )


def test_delete_records_waits_for_followers():
    led = partitions(3)
    for each in led:
        each.leadership().append(b"abc")
        fetch_with_log_start(each, 0)
        each.leadership().delete_records_before(2)
    park = Park(lambda: [gevent.spawn(fetch_with_log_start, each, 2) for each in led])
    assert wait_deleted([(each.leadership(), 2) for each in led], park) == [2, 2, 2]
    assert park.times == 1
    assert not any(each.waiters.log_starts for each in led)
    assert wait_deleted([(led[0].leadership(), 2)], park) == [2]
    assert park.times == 1, "a finished deletion is not waited for"


def test_delete_records_timeout_returns_low_watermark():
    led = partitions(2)
    for each in led:
        each.leadership().append(b"abc")
        fetch_with_log_start(each, 0)
        each.leadership().delete_records_before(3)
    assert wait_deleted([(led[0].leadership(), 3)], Park(), timeout_s=1.1) == [0]
    assert wait_deleted([(led[0].leadership(), 3)], Park(), live=(1,)) == [3], (
        "dead followers are not waited for"
    )
    park = Park(lambda: gevent.spawn(led[1].become_follower, decided(2, 1)))
    (result,) = wait_deleted([(led[1].leadership(), 3)], park)
    assert isinstance(result, NotLeaderForPartition)
