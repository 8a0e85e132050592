"""Commits of a member: generation, asynchronous reports, and refusal in a later generation."""

import pytest

from tests.support.scripted_coordinator import ScriptedCoordinator
from zkbroker.client.group_offsets import Committed
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import CommitFailed
from zkbroker.consumer.group.commits import MemberOffsets
from zkbroker.consumer.group.joining import Share
from zkbroker.errors import ErrorCode, NetworkError, ProtocolError
from zkbroker.protocol.messages import OffsetCommitResponse
from zkbroker.protocol.messages.offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

T0 = ("t", 0)
SHARE = Share(3, "m", (T0,))


def answer(code=0):
    part = OffsetCommitResponsePartition(0, code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", [part])])


def never(error):
    raise AssertionError("fenced")


def offsets_of(coordinator, fence=never):
    config = GroupConsumerConfig(bootstrap_servers=("b:1",), group_id="g")
    return MemberOffsets(config, coordinator, lambda: None, fence)


def test_commit_has_generation_and_member_id():
    coordinator = ScriptedCoordinator(answer())
    offsets_of(coordinator).commit({T0: Committed(5, "x")}, SHARE, 1.0)
    (request,) = coordinator.asked
    assert (request.generation_id, request.member_id) == (3, "m")
    offsets_of(coordinator).commit({}, SHARE, 1.0)
    assert len(coordinator.asked) == 1


@pytest.mark.parametrize(
    ("code", "fences"),
    [
        (ErrorCode.ILLEGAL_GENERATION, 1),
        (ErrorCode.UNKNOWN_MEMBER_ID, 1),
        (ErrorCode.REBALANCE_IN_PROGRESS, 0),
    ],
)
def test_late_commit_raises_with_advice(code, fences):
    fenced = []
    with pytest.raises(CommitFailed, match="poll more often"):
        offsets_of(ScriptedCoordinator(answer(code)), fenced.append).commit(
            {T0: Committed(5)}, SHARE, 1.0
        )
    assert fenced == [code] * fences


def test_other_commit_errors_are_raised_unchanged():
    with pytest.raises(ProtocolError) as raised:
        offsets_of(ScriptedCoordinator(answer(ErrorCode.GROUP_AUTHORIZATION_FAILED))).commit(
            {T0: Committed(5)}, SHARE, 1.0
        )
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("given", "error", "lost"),
    [
        (answer(), None, []),
        (answer(ErrorCode.NOT_COORDINATOR), ProtocolError, [ErrorCode.NOT_COORDINATOR]),
        (NetworkError("cut"), NetworkError, [ErrorCode.NETWORK_EXCEPTION]),
    ],
)
def test_async_commit_is_reported_once_and_drops_lost_coordinator(given, error, lost):
    coordinator = ScriptedCoordinator(given)
    offsets = offsets_of(coordinator)
    reports = []
    offsets.commit_async(
        {T0: Committed(5)}, SHARE, lambda commits, failed: reports.append((commits, failed))
    )
    assert reports == []
    assert not offsets.busy
    offsets.report()
    offsets.report()
    ((commits, failed),) = reports
    assert commits == {T0: Committed(5)}
    assert failed is None if error is None else isinstance(failed, error)
    assert coordinator.lost_codes == lost
