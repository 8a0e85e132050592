"""Fetch sessions, as KIP-227 has them."""

import tracemalloc

import pytest

from tests.support.replicas import PlainRuntime
from zkbroker.broker.fetch_sessions import EVICTION_S, FetchSessions
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.codec import decode, encode_bytes
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    FetchResponseTopic,
    ForgottenTopic,
)

MANY = 10**9


def request(session_id, epoch, *asked, forget=()):
    topics = [
        FetchRequestTopic(
            "t",
            [
                FetchRequestPartition(
                    partition=number,
                    current_leader_epoch=5,
                    fetch_offset=offset,
                    log_start_offset=0,
                    max_bytes=100,
                )
                for number, offset in asked
            ],
        )
    ]
    return FetchRequest(
        replica_id=2,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if asked else [],
        forgotten_topics=[ForgottenTopic("t", list(forget))] if forget else [],
    )


def opened(sessions, *asked):
    session = sessions.session(request(0, 0, *asked))
    session.answered(answers(*(number for number, _ in asked)), incremental=False)
    return session


def answers(*numbers, records=b"", mark=3, error=0):
    return [
        FetchResponseTopic(
            "t",
            [
                FetchResponsePartition(
                    partition=n,
                    error_code=error,
                    high_watermark=mark,
                    last_stable_offset=-1,
                    log_start_offset=0,
                    records=records,
                )
                for n in numbers
            ],
        )
    ]


def asked_of(session):
    return [(p.partition, p.fetch_offset) for topic in session.topics() for p in topic.partitions]


def told(session, answer):
    return [
        each.partition
        for topic in session.answered(answer, incremental=True)
        for each in topic.partitions
    ]


def test_session_keeps_partitions_until_changed_or_forgotten():
    sessions = FetchSessions(10, MANY, PlainRuntime())
    first = opened(sessions, (0, 10), (1, 20))
    assert asked_of(sessions.session(request(first.id, 1))) == [(0, 10), (1, 20)]
    assert asked_of(sessions.session(request(first.id, 2, (1, 25)))) == [(0, 10), (1, 25)]
    assert asked_of(sessions.session(request(first.id, 3, forget=[0]))) == [(1, 25)]


def test_session_keeps_the_leader_epoch():
    sessions = FetchSessions(10, MANY, PlainRuntime())
    first = opened(sessions, (0, 10))
    again = sessions.session(request(first.id, 1))
    assert again.topics()[0].partitions[0].current_leader_epoch == 5


def test_incremental_response_holds_only_changes():
    session = opened(FetchSessions(10, MANY, PlainRuntime()), (0, 10), (1, 20))
    assert told(session, answers(0, 1)) == []
    assert told(session, answers(0, 1, mark=4)) == [0, 1]
    assert told(session, answers(0, mark=4, records=b"x")) == [0]
    assert told(session, answers(1, mark=4, error=6)) == [1]
    assert told(session, answers(1, mark=4, error=6)) == [1]
    assert told(session, answers(1, mark=4)) == [1]  # the error is over


def test_partition_named_again_is_answered_without_changes():
    # Its follower has begun another leader epoch, and dropped what was on its way: the log start
    # without which it may not join the ISR, the high watermark.
    sessions = FetchSessions(10, MANY, PlainRuntime())
    first = opened(sessions, (0, 10), (1, 20))
    assert told(sessions.session(request(first.id, 1, (1, 20))), answers(0, 1)) == [1]
    assert told(sessions.session(request(first.id, 2)), answers(0, 1)) == []


def test_partition_with_records_comes_last_in_the_next_fetch():
    session = opened(FetchSessions(10, MANY, PlainRuntime()), (0, 10), (1, 20), (2, 30))
    told(session, answers(0, records=b"x"))
    assert [number for number, _ in asked_of(session)] == [1, 2, 0]


@pytest.mark.parametrize("epoch", [0, 2, 7])
def test_wrong_session_epoch_is_refused(epoch):
    sessions = FetchSessions(10, MANY, PlainRuntime())
    first = opened(sessions, (0, 10))
    if epoch == 0:  # opens another session, and ends the old one
        assert sessions.session(request(first.id, 0, (0, 10))).id != first.id
        epoch, code = 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    with pytest.raises(ProtocolError) as raised:
        sessions.session(request(first.id, epoch))
    assert raised.value.code == code


def test_unknown_session_is_error_70():
    with pytest.raises(ProtocolError) as raised:
        FetchSessions(10, MANY, PlainRuntime()).session(request(4711, 1))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_ends_when_closed_or_empty():
    sessions = FetchSessions(10, MANY, PlainRuntime())
    first, second = opened(sessions, (0, 10)), opened(sessions, (0, 10))
    assert sessions.session(request(first.id, -1)) is None
    assert sessions.session(request(second.id, 1, forget=[0])) is None
    assert len(sessions) == 0


class Bounded:
    """Sessions at a time that the test says."""

    def __init__(self, slots=1000, max_bytes=MANY):
        self.now = 0.0
        self.sessions = FetchSessions(slots, max_bytes, PlainRuntime(lambda: int(self.now * 1000)))

    def open(self, partitions, topic="t"):
        asked = [
            FetchRequestPartition(
                partition=number,
                current_leader_epoch=5,
                fetch_offset=0,
                log_start_offset=0,
                max_bytes=100,
            )
            for number in range(partitions)
        ]
        return self.sessions.session(
            FetchRequest(
                replica_id=2,
                session_id=0,
                session_epoch=0,
                topics=[FetchRequestTopic(topic, asked)],
            )
        )

    def lives(self, session):
        try:
            return self.sessions.session(request(session.id, session.epoch)) is session
        except ProtocolError:
            return False


def test_session_unused_for_long_is_evicted():
    world = Bounded(slots=2)
    first, second = world.open(9), world.open(9)
    assert world.open(1) is None, "both are in use"
    world.now = EVICTION_S
    assert world.lives(first)
    assert world.open(1) is None
    world.now = EVICTION_S + 1
    third = world.open(1)
    assert (world.lives(first), world.lives(second), world.lives(third)) == (True, False, True)


def test_old_session_is_evicted_only_for_a_larger_one():
    world = Bounded(slots=2)
    small, large = world.open(5), world.open(9)
    world.now = EVICTION_S
    assert world.lives(small)
    assert world.lives(large)
    assert world.open(20) is None, "it is safe for two minutes"
    world.now = EVICTION_S + 1
    assert world.open(5) is None
    assert world.open(6) is not None
    assert (world.lives(small), world.lives(large)) == (False, True)


def test_memory_of_all_sessions_is_bounded():
    world = Bounded(max_bytes=100_000)
    made = [session for _ in range(50) if (session := world.open(20))]
    assert 5 < len(made) < 50
    assert 80_000 < world.sessions.size_bytes <= 100_000
    assert all(map(world.lives, made)), "those that are in stay in"
    assert world.open(1000) is None, "one alone that is too large"
    world.now = EVICTION_S + 1
    assert all(map(world.lives, made[2:]))
    assert world.open(40) is not None
    assert not any(map(world.lives, made[:2])), "as many go as it needs"
    assert all(map(world.lives, made[2:]))
    assert world.sessions.size_bytes <= 100_000


def test_session_that_grows_beyond_the_bound_ends():
    world = Bounded(max_bytes=100_000)
    other, grows = world.open(10), world.open(10)
    adds = [(number, 0) for number in range(1000)]
    with pytest.raises(ProtocolError) as raised:
        world.sessions.session(request(grows.id, 1, *adds))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not world.lives(grows)
    assert world.lives(other)
    assert world.sessions.size_bytes == other.size_bytes


def test_forgotten_partitions_are_no_longer_counted():
    world = Bounded()
    session = world.open(10)
    for epoch in (1, 2):
        world.sessions.session(request(session.id, epoch, forget=[3, 4, 99]))
    assert world.sessions.size_bytes == session.size_bytes == world.open(8).size_bytes
    assert len(session) == 8


def test_counted_size_matches_the_memory_used():
    world = Bounded()
    data = encode_bytes(
        FetchRequest(
            replica_id=2,
            session_id=0,
            session_epoch=0,
            topics=[
                FetchRequestTopic(
                    f"topic-{topic}",
                    [
                        FetchRequestPartition(
                            partition=n,
                            current_leader_epoch=700,
                            fetch_offset=10**9 + n,
                            log_start_offset=10**8 + n,
                            max_bytes=10**6,
                        )
                        for n in range(50)
                    ],
                )
                for topic in range(100)
            ],
        ),
        11,
    )
    tracemalloc.start()
    try:
        session = world.sessions.session(decode(FetchRequest, 11, data)[0])
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(session) == 5000
    assert kept <= world.sessions.size_bytes <= 1.5 * kept


def test_sessions_without_room_are_logged_once(caplog):
    world = Bounded(max_bytes=1000)
    for _ in range(5):
        assert world.open(100) is None
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 1
    assert "max.incremental.fetch.session.cache.bytes=1000" in told[0]


def test_every_fetch_is_full_without_session_slots():
    assert FetchSessions(0, MANY, PlainRuntime()).session(request(0, 0, (0, 10))) is None
