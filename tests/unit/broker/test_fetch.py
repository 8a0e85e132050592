from types import SimpleNamespace

import gevent
import pytest

from tests.support.broker_requests import fetch_partition
from tests.support.handler_services import handler_context, handler_services
from tests.support.replicas import EntryLog, Park, decided, make_partition
from tests.support.zookeeper import until
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.config.log import LogConfig
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.fileslice import FileSlice
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import FetchRequestTopic
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.runtime import get_runtime
from zkbroker.runtime.threads import ThreadsRuntime


class BatchLog:
    """A log that holds batches of magic 2."""

    log_start_offset = 0
    log_end_offset = 1
    first_unstable_offset = None
    offline = None
    writer = SimpleNamespace(begin_epoch=lambda epoch, may_fall: None)

    def last_stable_offset(self, high_watermark):
        return high_watermark

    def __init__(self, **settings):
        self.config = LogConfig(**settings)
        self.closed = 0
        self.reads = 0

    def read(self, offset, limit, **given):
        self.reads += 1

        def close():
            self.closed += 1

        return SimpleNamespace(
            slice=FileSlice(0, 0, 100, close),
            log_start_offset=0,
            max_magic=lambda: 2,
            fetch_since=lambda: 0,
        )

    def read_bytes(self, offset, limit, **given):
        return b""


def fetch(log, version, partitions=(0,)):
    replica = make_partition(log=log)
    replica.become_leader(decided(1, 0, (1,), (1,)))
    services = handler_services(dict.fromkeys((("t", 0), ("t", 1)), replica), ThreadsRuntime())
    rows = [fetch_partition(number, max_bytes=1000) for number in partitions]
    request = FetchRequest(topics=[FetchRequestTopic("t", rows)])
    return FetchHandler(services)(request, handler_context(version)).topics[0].partitions


@pytest.mark.parametrize(
    ("version", "enabled", "code"), [(0, True, 0), (0, False, 35), (3, False, 35), (4, False, 0)]
)
def test_old_fetch_gets_error_35_when_down_conversion_is_off(version, enabled, code):
    log = BatchLog(message_downconversion_enable=enabled)
    (answer,) = fetch(log, version)
    assert answer.error_code == code
    if code:
        assert (answer.records, log.closed) == (b"", 1)


def test_repeated_partition_is_read_once():
    log = BatchLog()
    answers = fetch(log, 4, [0, 1, 0, 0, 1])
    assert [answer.partition for answer in answers] == [0, 1]
    assert log.reads == 2


class FetchedLeader:
    """Broker 1, which leads t-0 with a replica on broker 2 and five records, and its handler."""

    def __init__(self):
        self.replica = make_partition(log=EntryLog(), runtime=get_runtime("gevent"))
        self.replica.become_leader(decided(1, 5, (1, 2), (1, 2)))
        self.replica.leadership().append(b"abcde")
        services = handler_services({("t", 0): self.replica}, get_runtime("gevent"))
        self.handler = FetchHandler(services)
        self.park = Park()

    def fetch(self, offset, *, replica_id=-1, version=11, epoch=-1, **more):
        asked = fetch_partition(0, offset, epoch=epoch, log_start_offset=0, max_bytes=100)
        topics = [FetchRequestTopic("t", [asked])]
        return self.send(FetchRequest(replica_id=replica_id, topics=topics, **more), version)

    def send(self, request, version=11):
        return self.handler(request, handler_context(version, self.park))


@pytest.fixture
def leader():
    return FetchedLeader()


def only(answer):
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize(("version", "code"), [(5, 6), (6, 56)])
def test_offline_partition_has_error_6_for_old_consumers(leader, version, code):
    leader.replica.mark_offline()
    assert only(leader.fetch(0, version=version)).error_code == code


def test_each_kind_of_reader_reads_to_its_own_end(leader):
    leader.fetch(3, replica_id=2)
    leader.replica.log.reads.clear()
    for request in ({}, {"isolation_level": 1}, {"replica_id": 2}):
        leader.replica.log.first_unstable_offset = 1
        leader.fetch(0, **request)
    assert leader.replica.log.reads == [3, 1, 5]


@pytest.mark.parametrize("replica_id", [-2, -3, -(2**31)])
def test_other_negative_replica_ids_read_as_consumers(leader, replica_id):
    leader.fetch(3, replica_id=2)
    leader.replica.log.reads.clear()
    leader.replica.log.first_unstable_offset = 1
    leader.fetch(0, replica_id=replica_id)
    leader.fetch(0, replica_id=replica_id, isolation_level=1)
    assert leader.replica.log.reads == [3, 1]


def test_follower_fetch_moves_high_watermark_one_fetch_late(leader):
    assert only(leader.fetch(5, replica_id=2)).high_watermark == 0
    assert only(leader.fetch(5, replica_id=2)).high_watermark == 5


def test_fetch_of_a_broker_without_replica_does_not_move_high_watermark(leader):
    answer = only(leader.fetch(5, replica_id=7))
    assert (answer.error_code, leader.replica.high_watermark) == (0, 0)


@pytest.mark.parametrize(("epoch", "code"), [(4, 74), (6, 75), (5, 0), (-1, 0)])
def test_incremental_fetch_checks_leader_epoch(leader, epoch, code):
    opened = leader.fetch(0, replica_id=2, epoch=5, session_epoch=0)
    assert opened.session_id
    again = leader.fetch(
        1, replica_id=2, epoch=epoch, session_id=opened.session_id, session_epoch=1
    )
    assert [p.error_code for t in again.topics for p in t.partitions] in ([code], [])
    # A follower left behind by a new epoch is refused although its request names no partition.
    leader.replica.become_leader(decided(1, 6, (1,), (1, 2)))
    left_behind = FetchRequest(replica_id=2, session_id=opened.session_id, session_epoch=2)
    if epoch == 5:
        assert only(leader.send(left_behind)).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_consumers_get_no_fetch_session(leader):
    assert leader.fetch(0, session_epoch=0).session_id == 0
    with pytest.raises(ProtocolError):
        leader.fetch(0, session_id=3, session_epoch=1)


def test_consumer_waits_for_the_high_watermark(leader):
    waiting = gevent.spawn(leader.fetch, 0, max_wait_ms=10_000, min_bytes=1)
    gevent.sleep(0)
    reads = len(leader.replica.log.reads)
    leader.replica.leadership().append(b"f")
    gevent.sleep(0.02)
    assert len(leader.replica.log.reads) == reads  # nothing new for a consumer yet
    leader.fetch(6, replica_id=2)
    until(lambda: len(leader.replica.log.reads) > reads + 1)
    waiting.kill()
    assert leader.park.times == 1


def test_read_of_an_older_epoch_does_not_advance_the_follower(leader):
    closed = []
    read = leader.replica.log.read

    def read_and_change(*args, **given):
        found = read(*args, **given)
        found.slice = FileSlice(0, 0, 1, lambda: closed.append(1))
        leader.replica.become_leader(decided(1, 6, (1, 2), (1, 2)))
        return found

    leader.replica.log.read = read_and_change
    answer = only(leader.fetch(5, replica_id=2, epoch=5))
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert closed == [1]
    assert leader.replica.leadership().remote[2].log_end_offset == -1


def test_waiting_follower_fetch_records_its_offset_once(leader):
    waiting = gevent.spawn(leader.fetch, 5, replica_id=2, max_wait_ms=10_000, min_bytes=100)
    gevent.sleep(0)
    remote = leader.replica.leadership().remote[2]
    assert remote.log_end_offset == 5
    # It lost power and came back with less, on another connection, while the old fetch waits.
    leader.fetch(2, replica_id=2)
    reads = len(leader.replica.log.reads)
    leader.replica.leadership().append(b"f")
    until(lambda: len(leader.replica.log.reads) > reads)  # the old fetch read again
    assert remote.log_end_offset == 2
    waiting.kill()


def test_append_between_read_and_wait_wakes_the_follower(leader):
    read = leader.handler._read

    def read_and_append(*args, **given):
        found = read(*args, **given)
        if given:  # the first read
            leader.replica.leadership().append(b"f")
        return found

    leader.handler._read = read_and_append
    waiting = gevent.spawn(leader.fetch, 5, replica_id=2, max_wait_ms=600_000, min_bytes=1)
    until(lambda: len(leader.replica.log.reads) >= 2)
    waiting.kill()


def test_fetch_is_served_while_500_produces_wait(leader):

    def produce():
        leadership = leader.replica.leadership()
        appended = Unacknowledged(leadership, leadership.append(b"x", acks=-1).last_offset)
        return wait_for_acks([appended], -1, 30.0, runtime=get_runtime("gevent"), park=leader.park)

    waiting = [gevent.spawn(produce) for _ in range(500)]
    gevent.sleep(0)
    assert leader.park.times == 500
    end = leader.replica.log_end_offset
    assert only(leader.fetch(end, replica_id=2)).error_code == 0
    gevent.joinall(waiting, timeout=10)
    assert all(each.value == [None] for each in waiting)
