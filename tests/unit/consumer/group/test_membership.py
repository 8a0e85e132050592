"""The loop of a member under unexpected errors, missing responses and fencing."""

from types import SimpleNamespace

import pytest

from tests.support.scripted_coordinator import ScriptedCoordinator
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.assignors import ClusterPartitions, RangeAssignor
from zkbroker.consumer.group.joining import Share
from zkbroker.consumer.group.membership import GroupMembership
from zkbroker.errors import ClientError, ErrorCode, NetworkError
from zkbroker.runtime import get_runtime

WAIT_S = 20


def membership(runtime, notified, **settings):
    return GroupMembership(
        GroupConsumerConfig(bootstrap_servers=("none:1",), group_id="g", **settings),
        ScriptedCoordinator(NetworkError("no response")),
        [RangeAssignor()],
        partitions_of=lambda topics: ClusterPartitions({}),
        runtime=runtime,
        notify=notified.set,
    )


def join_as_member_1(member, monkeypatch):
    """Subscribe, and let each join succeed; return the ids with which the member asks."""
    asked = []

    def join(member_id, topics):
        asked.append(member_id)
        member._exchange.member_id = "member-1"
        return Share(1, "member-1", ())

    monkeypatch.setattr(member._exchange, "join", join)
    member.subscribe(frozenset({"t"}))
    return asked


def wait(notified, condition):
    while not condition():
        assert notified.wait(WAIT_S)
        notified.clear()


@pytest.mark.parametrize("runtime_name", ["threads", "gevent"])
def test_assignor_error_raises_in_poll_and_rejoins(monkeypatch, runtime_name):
    runtime = get_runtime(runtime_name)
    notified = runtime.event()
    member = membership(runtime, notified, retry_backoff_ms=1)
    asked = []

    def join(member_id, topics):
        asked.append(topics)
        raise LookupError("of the user's assignor")

    monkeypatch.setattr(member._exchange, "join", join)
    member.subscribe(frozenset({"t"}))
    for times in (1, 2):
        assert notified.wait(WAIT_S)
        notified.clear()
        assert len(asked) == times
        error = member.take_error()
        assert isinstance(error, ClientError)
        assert "group g cannot be joined: LookupError" in str(error)
    member.leave(WAIT_S)
    assert not member._task.alive


@pytest.mark.parametrize("runtime_name", ["threads", "gevent"])
def test_member_without_heartbeat_response_rejoins_with_its_id(monkeypatch, runtime_name):
    runtime = get_runtime(runtime_name)
    notified = runtime.event()
    member = membership(runtime, notified, session_timeout_ms=50, heartbeat_interval_ms=10)
    asked = join_as_member_1(member, monkeypatch)
    for _ in range(2):
        wait(notified, member.take)
        wait(notified, lambda: member.lost)
        member.released()
    wait(notified, lambda: len(asked) == 3)
    assert asked == ["", "member-1", "member-1"]
    member.leave(WAIT_S)
    assert not member._task.alive


@pytest.mark.parametrize("by_commit", [False, True])
@pytest.mark.parametrize(
    ("error", "rejoin_id"),
    [(ErrorCode.ILLEGAL_GENERATION, "member-1"), (ErrorCode.UNKNOWN_MEMBER_ID, "")],
)
def test_fenced_member_keeps_its_id_unless_coordinator_forgot_it(
    monkeypatch, error, rejoin_id, by_commit
):
    """With a new id the group would wait until its old session expires."""
    runtime = get_runtime("threads")
    notified = runtime.event()
    beat_ms = 60_000 if by_commit else 10
    member = membership(
        runtime, notified, heartbeat_interval_ms=beat_ms, session_timeout_ms=180_000
    )
    member._coordinator = ScriptedCoordinator(SimpleNamespace(error_code=error))
    asked = join_as_member_1(member, monkeypatch)
    wait(notified, member.take)
    if by_commit:
        member.fence(error)
    wait(notified, lambda: member.lost)
    member.released()
    wait(notified, lambda: len(asked) == 2)
    assert asked == ["", rejoin_id]
    member.leave(WAIT_S)
