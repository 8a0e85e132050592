"""Fetch sessions of KIP-227."""

import tracemalloc

import pytest

from tests.support.broker_requests import fetch_partition
from tests.support.replicas import PlainRuntime
from zkbroker.broker.fetch_sessions import EVICTION_S, FetchSessions
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.codec import decode, encode_bytes
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestTopic,
    FetchResponsePartition,
    FetchResponseTopic,
    ForgottenTopic,
)

MANY = 10**9


@pytest.fixture
def sessions():
    return FetchSessions(10, MANY, PlainRuntime())


def request(session_id, epoch, *asked, forget=()):
    rows = [
        fetch_partition(number, offset, epoch=5, log_start_offset=0) for number, offset in asked
    ]
    return FetchRequest(
        replica_id=2,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchRequestTopic("t", rows)] if asked else [],
        forgotten_topics=[ForgottenTopic("t", list(forget))] if forget else [],
    )


def opened(sessions, *asked):
    session = sessions.session(request(0, 0, *asked))
    session.answered(answers(*(number for number, _ in asked)), incremental=False)
    return session


def answers(*numbers, records=b"", mark=3, error=0):
    fields = {"error_code": error, "high_watermark": mark, "records": records}
    fields |= {"last_stable_offset": -1, "log_start_offset": 0}
    rows = [FetchResponsePartition(partition=number, **fields) for number in numbers]
    return [FetchResponseTopic("t", rows)]


def asked_of(session):
    return [(p.partition, p.fetch_offset) for topic in session.topics() for p in topic.partitions]


def changed(session, answer):
    return [
        each.partition
        for topic in session.answered(answer, incremental=True)
        for each in topic.partitions
    ]


def test_session_keeps_partitions_until_changed_or_forgotten(sessions):
    first = opened(sessions, (0, 10), (1, 20))
    assert asked_of(sessions.session(request(first.id, 1))) == [(0, 10), (1, 20)]
    assert asked_of(sessions.session(request(first.id, 2, (1, 25)))) == [(0, 10), (1, 25)]
    assert asked_of(sessions.session(request(first.id, 3, forget=[0]))) == [(1, 25)]


def test_session_keeps_the_leader_epoch(sessions):
    first = opened(sessions, (0, 10))
    again = sessions.session(request(first.id, 1))
    assert again.topics()[0].partitions[0].current_leader_epoch == 5


def test_incremental_response_holds_only_changes(sessions):
    session = opened(sessions, (0, 10), (1, 20))
    assert changed(session, answers(0, 1)) == []
    assert changed(session, answers(0, 1, mark=4)) == [0, 1]
    assert changed(session, answers(0, mark=4, records=b"x")) == [0]
    assert changed(session, answers(1, mark=4, error=6)) == [1]
    assert changed(session, answers(1, mark=4, error=6)) == [1]
    assert changed(session, answers(1, mark=4)) == [1]  # the error is over


def test_partition_named_again_is_answered_without_changes(sessions):
    # Its follower has begun another leader epoch and dropped the response on its way, with the log
    # start that it needs to join the ISR, and the high watermark.
    first = opened(sessions, (0, 10), (1, 20))
    assert changed(sessions.session(request(first.id, 1, (1, 20))), answers(0, 1)) == [1]
    assert changed(sessions.session(request(first.id, 2)), answers(0, 1)) == []


def test_partition_with_records_comes_last_in_the_next_fetch(sessions):
    session = opened(sessions, (0, 10), (1, 20), (2, 30))
    changed(session, answers(0, records=b"x"))
    assert [number for number, _ in asked_of(session)] == [1, 2, 0]


@pytest.mark.parametrize("epoch", [0, 2, 7])
def test_wrong_session_epoch_is_refused(sessions, epoch):
    first = opened(sessions, (0, 10))
    if epoch == 0:  # opens another session, and ends the old one
        assert sessions.session(request(first.id, 0, (0, 10))).id != first.id
        epoch, code = 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    with pytest.raises(ProtocolError) as raised:
        sessions.session(request(first.id, epoch))
    assert raised.value.code == code


def test_unknown_session_is_error_70(sessions):
    with pytest.raises(ProtocolError) as raised:
        sessions.session(request(4711, 1))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_ends_when_closed_or_empty(sessions):
    first, second = opened(sessions, (0, 10)), opened(sessions, (0, 10))
    assert sessions.session(request(first.id, -1)) is None
    assert sessions.session(request(second.id, 1, forget=[0])) is None
    assert len(sessions) == 0


class BoundedSessions:
    """Fetch sessions with bounds and a clock that the test moves."""

    def __init__(self, slots=1000, max_bytes=MANY):
        self.now = 0.0
        self.sessions = FetchSessions(slots, max_bytes, PlainRuntime(lambda: int(self.now * 1000)))

    def open(self, partitions):
        return self.sessions.session(request(0, 0, *((number, 0) for number in range(partitions))))

    def lives(self, session):
        try:
            return self.sessions.session(request(session.id, session.epoch)) is session
        except ProtocolError:
            return False


def test_session_unused_for_long_is_evicted():
    bounded = BoundedSessions(slots=2)
    first, second = bounded.open(9), bounded.open(9)
    assert bounded.open(1) is None, "both are in use"
    bounded.now = EVICTION_S
    assert bounded.lives(first)
    assert bounded.open(1) is None
    bounded.now = EVICTION_S + 1
    third = bounded.open(1)
    assert (bounded.lives(first), bounded.lives(second), bounded.lives(third)) == (
        True,
        False,
        True,
    )


def test_old_session_is_evicted_only_for_a_larger_one():
    bounded = BoundedSessions(slots=2)
    small, large = bounded.open(5), bounded.open(9)
    bounded.now = EVICTION_S
    assert bounded.lives(small)
    assert bounded.lives(large)
    assert bounded.open(20) is None, "it is safe for two minutes"
    bounded.now = EVICTION_S + 1
    assert bounded.open(5) is None
    assert bounded.open(6) is not None
    assert (bounded.lives(small), bounded.lives(large)) == (False, True)


def test_memory_of_all_sessions_is_bounded():
    bounded = BoundedSessions(max_bytes=100_000)
    made = [session for _ in range(50) if (session := bounded.open(20))]
    assert 5 < len(made) < 50
    assert 80_000 < bounded.sessions.size_bytes <= 100_000
    assert all(map(bounded.lives, made)), "those that are in stay in"
    assert bounded.open(1000) is None, "one alone that is too large"
    bounded.now = EVICTION_S + 1
    assert all(map(bounded.lives, made[2:]))
    assert bounded.open(40) is not None
    assert not any(map(bounded.lives, made[:2])), "as many go as it needs"
    assert all(map(bounded.lives, made[2:]))
    assert bounded.sessions.size_bytes <= 100_000


def test_session_that_grows_beyond_the_bound_ends():
    bounded = BoundedSessions(max_bytes=100_000)
    other, grows = bounded.open(10), bounded.open(10)
    adds = [(number, 0) for number in range(1000)]
    with pytest.raises(ProtocolError) as raised:
        bounded.sessions.session(request(grows.id, 1, *adds))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not bounded.lives(grows)
    assert bounded.lives(other)
    assert bounded.sessions.size_bytes == other.size_bytes


def test_forgotten_partitions_are_no_longer_counted():
    bounded = BoundedSessions()
    session = bounded.open(10)
    for epoch in (1, 2):
        bounded.sessions.session(request(session.id, epoch, forget=[3, 4, 99]))
    assert bounded.sessions.size_bytes == session.size_bytes == bounded.open(8).size_bytes
    assert len(session) == 8


def test_counted_size_matches_the_memory_used():
    bounded = BoundedSessions()
    rows = [fetch_partition(n, 10**9 + n, epoch=700, log_start_offset=10**8 + n) for n in range(50)]
    topics = [FetchRequestTopic(f"topic-{number}", rows) for number in range(100)]
    asked = FetchRequest(replica_id=2, session_id=0, session_epoch=0, topics=topics)
    data = encode_bytes(asked, 11)
    tracemalloc.start()
    try:
        session = bounded.sessions.session(decode(FetchRequest, 11, data)[0])
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(session) == 5000
    assert kept <= bounded.sessions.size_bytes <= 1.5 * kept


def test_sessions_without_room_are_logged_once(caplog):
    bounded = BoundedSessions(max_bytes=1000)
    for _ in range(5):
        assert bounded.open(100) is None
    (message,) = caplog.messages
    assert "max.incremental.fetch.session.cache.bytes=1000" in message


def test_every_fetch_is_full_without_session_slots():
    assert FetchSessions(0, MANY, PlainRuntime()).session(request(0, 0, (0, 10))) is None
