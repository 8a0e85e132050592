"""A follower's fetch session against the leader's side."""

import random
from typing import Any

import pytest

from tests.support.replicas import PlainRuntime
from zkbroker.broker.fetch_sessions import FetchSessions
from zkbroker.errors import ProtocolError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import FetchRequest
from zkbroker.replica.fetch_session import FollowerFetchSession, PartitionFetch


def exchange(
    session: FollowerFetchSession,
    sessions: FetchSessions,
    wanted: dict[TopicPartition, PartitionFetch],
) -> tuple[str | None, FetchRequest, dict[TopicPartition, PartitionFetch] | None]:
    """Send a request to the leader's side; return the problem, the request, and what it reads."""
    request = session.next(wanted)
    try:
        kept = sessions.session(request)
    except ProtocolError as error:
        return session.answered(error.code, 0, []), request, None
    read = {
        TopicPartition(topic.topic, each.partition): PartitionFetch(
            each.fetch_offset, each.current_leader_epoch, each.log_start_offset, each.max_bytes
        )
        for topic in (request.topics if kept is None else kept.topics())
        for each in topic.partitions
    }
    answered: Any = read if request.session_epoch == 0 else []
    return session.answered(0, 0 if kept is None else kept.id, answered), request, read


def wanted_of(offset: int, *numbers: int) -> dict[TopicPartition, PartitionFetch]:
    return {TopicPartition("t", number): PartitionFetch(offset, 1, 0, 100) for number in numbers}


def test_leader_reads_exactly_the_wanted_partitions():
    seeded = random.Random(7)
    session, sessions = FollowerFetchSession(11), FetchSessions(10, 10**6, PlainRuntime())
    wanted: dict[TopicPartition, PartitionFetch] = {}
    lost = 0
    for _ in range(1000):
        for number in range(6):
            draw = seeded.random()
            key = TopicPartition("t", number)
            if draw < 0.3:
                wanted[key] = PartitionFetch(seeded.randrange(100), seeded.randrange(3), 0, 100)
            elif draw < 0.4:
                wanted.pop(key, None)
        if seeded.random() < 0.05:
            session.failed()
        if seeded.random() < 0.05:
            sessions._sessions.clear()
        problem, _, read = exchange(session, sessions, dict(wanted))
        if problem is None:
            assert read == wanted
            continue
        lost += 1
        problem, _, read = exchange(session, sessions, dict(wanted))
        assert problem is None
        assert read == wanted
    assert lost > 10


@pytest.mark.parametrize(("code", "kept"), [(70, False), (71, True), (-1, True)])
def test_error_of_whole_response_starts_new_session(code, kept):
    session, sessions = FollowerFetchSession(7), FetchSessions(10, 10**6, PlainRuntime())
    exchange(session, sessions, wanted_of(0, 0, 1))
    assert session.incremental
    session.next(wanted_of(0, 0, 1))
    assert session.answered(code, 0, []) is not None
    part = session.next(wanted_of(0, 0, 1))
    assert part.session_epoch == 0
    assert (part.session_id != 0) is kept
    assert len(part.topics[0].partitions) == 2


def test_response_with_wrong_partitions_restarts_session():
    session = FollowerFetchSession(7)
    zero, one, two = wanted_of(0, 0, 1, 2)
    session.next(wanted_of(0, 0, 1))
    assert session.answered(0, 9, [zero]) is not None
    assert session.next(wanted_of(0, 0, 1)).session_id == 0
    assert session.answered(0, 9, [zero, two, one]) is not None
    session.next(wanted_of(0, 0, 1))
    assert session.answered(0, 9, [zero, one]) is None
    session.next(wanted_of(0, 0, 1))
    assert session.answered(0, 9, [one]) is None
    session.next(wanted_of(0, 0, 1))
    assert session.answered(0, 9, [two]) is not None
    assert session.next(wanted_of(0, 0, 1)).session_epoch == 0


def test_session_epoch_wraps_to_1():
    session = FollowerFetchSession(7)
    session.next(wanted_of(0, 0))
    session.answered(0, 9, list(wanted_of(0, 0)))
    session._epoch = 2**31 - 1
    session.next(wanted_of(0, 0))
    assert session.answered(0, 9, []) is None
    assert session.next(wanted_of(0, 0)).session_epoch == 1


def test_version_below_7_has_no_session():
    session = FollowerFetchSession(0)
    for _ in range(3):
        part = session.next(wanted_of(0, 0, 1))
        assert len(part.topics[0].partitions) == 2
        assert (part.session_id, part.session_epoch) == (0, -1)
        assert session.answered(0, 0, list(wanted_of(0, 0, 1))) is None
