"""A partition's log as coordinators use it."""

import gevent
import pytest

from tests.support.leading import catch_up
from tests.support.replicas import EntryLog, Park, SteppedRuntime, decided, make_partition
from zkbroker.errors import NotEnoughReplicas, NotLeaderForPartition, RequestTimedOut
from zkbroker.replica.stored_log import StoredLog
from zkbroker.runtime import get_runtime

GEVENT = get_runtime("gevent")


def stored(isr=(1, 2), **log):
    partition = make_partition(log=EntryLog(**log), runtime=GEVENT)
    partition.become_leader(decided(1, 0, isr, (1, 2)))
    return partition, StoredLog(partition.leadership(), SteppedRuntime(1000))


def test_wait_durable_waits_for_all_replicas_in_sync():
    partition, log = stored()
    result = log.append(bytearray(b"ab"))
    waiting = gevent.spawn(log.wait_durable, result.last_offset, 1000.0)
    gevent.sleep(0)
    assert not waiting.ready()
    catch_up(partition)
    waiting.get(timeout=5)


def test_wait_durable_parks_once():
    partition, log = stored()
    park = Park(lambda: catch_up(partition))
    result = log.append(bytearray(b"ab"))
    log.wait_durable(result.last_offset, 1000.0, park)
    log.wait_durable(result.last_offset, 1000.0, park)  # already durable
    assert park.times == 1


def test_wait_durable_times_out_without_follower():
    _, log = stored()
    result = log.append(bytearray(b"ab"))
    with pytest.raises(RequestTimedOut):
        log.wait_durable(result.last_offset, 0.5)


def test_append_is_refused_with_too_few_replicas_in_sync():
    _, log = stored(isr=(1,), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        log.append(bytearray(b"ab"))


def test_log_of_ended_leadership_is_refused():
    partition, log = stored()
    result = log.append(bytearray(b"ab"))
    partition.become_follower(decided(2, 1, (1, 2), (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        log.append(bytearray(b"cd"))
    partition.become_leader(decided(1, 2, (1,), (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        log.append(bytearray(b"cd"))
    with pytest.raises(NotLeaderForPartition):
        log.wait_durable(result.last_offset, 0.5)


def test_log_is_read_to_its_end():
    _, log = stored()
    log.append(bytearray(b"abcd"))
    assert log.read_bytes(0, 100) == b"abcd"
