"""Fetch sessions, as KIP-227 has them."""

import pytest

from zkbroker.broker.fetch_sessions import FetchSessions
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    FetchResponseTopic,
    ForgottenTopic,
)


def request(session_id, epoch, *asked, forget=()):
    topics = [
        FetchRequestTopic(
            "t", [FetchRequestPartition(number, 5, offset, 0, 100) for number, offset in asked]
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
            "t", [FetchResponsePartition(n, error, mark, -1, 0, records=records) for n in numbers]
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


def test_what_was_asked_once_is_asked_until_it_is_changed_or_forgotten():
    sessions = FetchSessions(10)
    first = opened(sessions, (0, 10), (1, 20))
    assert asked_of(sessions.session(request(first.id, 1))) == [(0, 10), (1, 20)]
    assert asked_of(sessions.session(request(first.id, 2, (1, 25)))) == [(0, 10), (1, 25)]
    assert asked_of(sessions.session(request(first.id, 3, forget=[0]))) == [(1, 25)]


def test_the_leader_epoch_is_kept_with_it():
    sessions = FetchSessions(10)
    first = opened(sessions, (0, 10))
    again = sessions.session(request(first.id, 1))
    assert again.topics()[0].partitions[0].current_leader_epoch == 5


def test_only_news_is_told():
    session = opened(FetchSessions(10), (0, 10), (1, 20))
    assert told(session, answers(0, 1)) == []
    assert told(session, answers(0, 1, mark=4)) == [0, 1]
    assert told(session, answers(0, mark=4, records=b"x")) == [0]
    assert told(session, answers(1, mark=4, error=6)) == [1]
    assert told(session, answers(1, mark=4, error=6)) == [1]
    assert told(session, answers(1, mark=4)) == [1]  # the error is over


def test_who_got_records_comes_last_the_next_time():
    session = opened(FetchSessions(10), (0, 10), (1, 20), (2, 30))
    told(session, answers(0, records=b"x"))
    assert [number for number, _ in asked_of(session)] == [1, 2, 0]


@pytest.mark.parametrize("epoch", [0, 2, 7])
def test_another_epoch_than_the_next_is_71(epoch):
    sessions = FetchSessions(10)
    first = opened(sessions, (0, 10))
    if epoch == 0:  # opens another session, and ends the old one
        assert sessions.session(request(first.id, 0, (0, 10))).id != first.id
        epoch, code = 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    with pytest.raises(ProtocolError) as raised:
        sessions.session(request(first.id, epoch))
    assert raised.value.code == code


def test_an_unknown_session_is_70():
    with pytest.raises(ProtocolError) as raised:
        FetchSessions(10).session(request(4711, 1))
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_end():
    sessions = FetchSessions(10)
    first, second = opened(sessions, (0, 10)), opened(sessions, (0, 10))
    assert sessions.session(request(first.id, -1)) is None
    assert sessions.session(request(second.id, 1, forget=[0])) is None
    assert len(sessions) == 0


def test_the_session_used_longest_ago_makes_room():
    sessions = FetchSessions(2)
    first, second = opened(sessions, (0, 10)), opened(sessions, (0, 10))
    sessions.session(request(first.id, 1))
    opened(sessions, (0, 10))
    assert sessions.session(request(first.id, 2)) is first
    with pytest.raises(ProtocolError):
        sessions.session(request(second.id, 1))


def test_without_slots_every_fetch_is_a_full_one():
    assert FetchSessions(0).session(request(0, 0, (0, 10))) is None
