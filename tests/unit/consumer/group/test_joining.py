"""Joins of a member at a coordinator with scripted responses."""

from typing import Any

import pytest

from tests.support.scripted_coordinator import ScriptedCoordinator
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group import joining
from zkbroker.consumer.group.assignors import ClusterPartitions, RangeAssignor, RoundRobinAssignor
from zkbroker.consumer.group.joining import JoinExchange
from zkbroker.errors import ErrorCode, ProtocolError, RequestTimedOut
from zkbroker.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flatten,
    group_by_topic,
)
from zkbroker.protocol.messages import JoinGroupResponse, SyncGroupResponse
from zkbroker.protocol.messages.membership import JoinGroupMember
from zkbroker.runtime import get_runtime


def joined(
    leader: str = "me", members: tuple[str, ...] = ("me",), **more: Any
) -> JoinGroupResponse:
    subscription = encode_subscription(Subscription(["t"]))
    return JoinGroupResponse(
        error_code=more.get("error_code", 0),
        generation_id=7,
        protocol_name="range",
        leader=leader,
        member_id="me",
        members=[JoinGroupMember(each, subscription) for each in members],
    )


def synced(*partitions: tuple[str, int], code: int = 0) -> SyncGroupResponse:
    share = encode_assignment(Assignment(group_by_topic(partitions)))
    return SyncGroupResponse(error_code=code, assignment=share)


def exchange(coordinator: ScriptedCoordinator, closing: bool = False) -> JoinExchange:
    return JoinExchange(
        GroupConsumerConfig(bootstrap_servers=("b:1",), group_id="g"),
        coordinator,  # type: ignore[arg-type]
        [RangeAssignor(), RoundRobinAssignor()],
        partitions_of=lambda topics: ClusterPartitions(dict.fromkeys(topics, 4)),
        wake=get_runtime("threads").event(),
        closing=lambda: closing,
    )


def test_join_sends_strategies_in_order_and_returns_share() -> None:
    coordinator = ScriptedCoordinator(
        joined(leader="other", members=()), synced(("t", 1), ("t", 3))
    )
    outcome = exchange(coordinator).join("", frozenset({"t", "a"}))
    assert outcome is not None
    assert (outcome.generation, outcome.member_id) == (7, "me")
    assert outcome.partitions == (("t", 1), ("t", 3))
    assert outcome.shared_out is None
    join, sync = coordinator.asked
    assert [each.name for each in join.protocols] == ["range", "roundrobin"]
    assert decode_subscription(join.protocols[0].metadata).topics == ["a", "t"]
    assert (sync.generation_id, sync.member_id, sync.assignments) == (7, "me", [])


def test_hung_coordinator_is_abandoned_after_two_lookups_name_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "_LOOK_UP_S", 0.001)
    monkeypatch.setattr(joining, "_MOVED_LOOK_S", 0.0)
    coordinator = ScriptedCoordinator(None)
    coordinator.lookups = [False, True, False, True, True, True]
    one = exchange(coordinator)
    with pytest.raises(RequestTimedOut, match="within 0 s"):
        one.join("me", frozenset({"t"}))
    assert coordinator.lookups == [True], "two lookups in a row are enough"
    assert (one.member_id, one.waits) == ("me", False)


def test_leader_assigns_topics_of_all_members() -> None:
    coordinator = ScriptedCoordinator(joined(members=("me", "you")), synced(("t", 0), ("t", 1)))
    outcome = exchange(coordinator).join("me", frozenset({"t"}))
    assert outcome is not None
    assert outcome.shared_out == {"t": 4}
    shares = {
        each.member_id: flatten(decode_assignment(each.assignment).assigned)
        for each in coordinator.asked[1].assignments
    }
    assert shares == {"me": [("t", 0), ("t", 1)], "you": [("t", 2), ("t", 3)]}


@pytest.mark.parametrize(
    ("code", "next_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
        (ErrorCode.ILLEGAL_GENERATION, "me"),
        (ErrorCode.REBALANCE_IN_PROGRESS, "me"),
    ],
)
def test_join_returns_none_when_group_moved_on(code: ErrorCode, next_id: str) -> None:
    one = exchange(ScriptedCoordinator(joined(leader="other", members=()), synced(code=code)))
    assert one.join("me", frozenset({"t"})) is None
    assert one.member_id == next_id
    assert not one.waits


def test_refused_join_raises() -> None:
    one = exchange(ScriptedCoordinator(joined(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    with pytest.raises(ProtocolError, match="group g") as refused:
        one.join("", frozenset({"t"}))
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_closing_ends_wait_for_join_response() -> None:
    assert exchange(ScriptedCoordinator(None), closing=True).join("", frozenset({"t"})) is None
