"""Produce appends to all partitions, and waits once."""

import gevent
import pytest

from tests.support.handler_services import handler_context, handler_services
from tests.support.replicas import EntryLog, Park, decided, make_partition
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.errors import ErrorCode, RequestTimedOut
from zkbroker.log import TopicPartition
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import MessageSetBuilder
from zkbroker.runtime import get_runtime

GEVENT = get_runtime("gevent")


class SlowLog(EntryLog):
    """A log whose flush takes longer than any timeout."""

    def wait_durable(self, last_offset, timeout_s=None):
        super().wait_durable(last_offset, timeout_s)
        if timeout_s is not None:
            raise RequestTimedOut("the disk is slow")


def leading(count=1, *, replicas=(1,), isr=None, make=EntryLog, **log):
    found = {}
    for number in range(count):
        key = TopicPartition("t", number)
        found[key] = make_partition(key=key, log=make(**log), runtime=GEVENT)
        found[key].become_leader(decided(1, 0, isr or replicas, replicas))
    return found


def produce(partitions, *, timeout_ms=1500, acks=1, park=None, version=7):
    builder = MessageSetBuilder(2)
    builder.append(None, b"x")
    data = builder.build()
    rows = [ProduceRequestPartition(n, memoryview(bytearray(data))) for _, n in partitions]
    request = ProduceRequest(None, acks, timeout_ms, [ProduceRequestTopic("t", rows)])
    handler = ProduceHandler(handler_services(partitions, GEVENT))
    response = handler(request, handler_context(version, park))
    return None if response is None else response.topics[0].partitions


def catch_up(partition):
    end = partition.log_end_offset
    partition.leadership().record_follower_fetch(2, end, 0, end)


@pytest.mark.parametrize("acks", [1, -1])
def test_slow_flush_times_out_with_error_7(acks):
    partitions = leading(make=SlowLog, flush_messages=1)
    (answer,) = produce(partitions, acks=acks, timeout_ms=60_000)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    (waited,) = partitions["t", 0].log.flush_waits
    assert 30 < waited <= 60


@pytest.mark.parametrize(("version", "code"), [(3, 6), (4, 56)])
def test_offline_partition_has_error_6_for_old_producers(version, code):
    partitions = leading()
    partitions["t", 0].mark_offline()
    (answer,) = produce(partitions, version=version)
    assert answer.error_code == code


def test_acks_1_without_timeout_waits_for_the_flush():
    partitions = leading(make=SlowLog, flush_messages=1)
    (answer,) = produce(partitions, timeout_ms=0)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert partitions["t", 0].log.flush_waits == [None]


def test_acks_all_without_timeout_waits_for_the_flush_but_no_replica():
    # A genuine broker flushes within the append; its delayed produce then expires at once.
    partitions = leading(make=SlowLog, replicas=(1, 2), flush_messages=1)
    (answer,) = produce(partitions, acks=-1, timeout_ms=0)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert partitions["t", 0].log.flush_waits == [None]
    (answer,) = produce(leading(), acks=-1, timeout_ms=0)
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_acks_0_waits_for_nothing():
    partitions = leading(make=SlowLog, flush_messages=1)
    assert produce(partitions, acks=0) is None
    assert partitions["t", 0].log.flush_waits == []


def test_failed_produce_with_acks_0_closes_the_connection():
    partitions = leading()
    partitions["t", 0].become_follower(decided(2, 1))
    with pytest.raises(CloseConnection):
        produce(partitions, acks=0)


def test_16_partitions_are_appended_before_one_wait():
    partitions = leading(16, replicas=(1, 2))
    ends = []

    def meanwhile():
        ends.extend(each.log_end_offset for each in partitions.values())
        for each in partitions.values():
            gevent.spawn(catch_up, each)

    park = Park(meanwhile)
    answers = produce(partitions, acks=-1, timeout_ms=30_000, park=park)
    assert [each.error_code for each in answers] == [0] * 16
    assert park.times == 1
    assert all(ends)


def test_acks_all_with_a_single_replica_does_not_park():
    park = Park()
    (answer,) = produce(leading(), acks=-1, park=park)
    assert (answer.error_code, park.times) == (0, 0)


def test_too_few_in_sync_replicas_is_error_19_before_the_append():
    partitions = leading(replicas=(1, 2), isr=(1,), min_insync_replicas=2)
    (answer,) = produce(partitions, acks=-1)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partitions["t", 0].log_end_offset == 0
    (answer,) = produce(partitions, acks=1)
    assert answer.error_code == 0


def test_each_partition_has_its_own_error():
    partitions = leading(2, replicas=(1, 2))

    def meanwhile():
        gevent.spawn(partitions["t", 0].become_follower, decided(2, 1))
        gevent.spawn(catch_up, partitions["t", 1])

    answers = produce(partitions, acks=-1, timeout_ms=30_000, park=Park(meanwhile))
    assert [each.error_code for each in answers] == [ErrorCode.NOT_LEADER_FOR_PARTITION, 0]
