"""Commits and fetches of the offsets of a group, in all versions."""

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.client.group_offsets import (
    Committed,
    CoordinatorOffsets,
    commit_error,
    commit_offsets,
    commit_request,
    fetch_error,
    fetch_offsets,
    fetch_request,
    fetched_offsets,
)
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.messages import OffsetCommitResponse, OffsetFetchResponse
from zkbroker.protocol.messages.offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def committed(*codes):
    parts = [OffsetCommitResponsePartition(number, code) for number, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", parts)])


def fetched(*answers, error=0):
    parts = [
        OffsetFetchResponsePartition(number, offset, metadata=text, error_code=code)
        for number, (offset, text, code) in enumerate(answers)
    ]
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", parts)], error_code=error)


class FakeCoordinator:
    def __init__(self, response):
        self.response = response
        self.asked = []

    def ask(self, request, *, timeout_s, error_of, stopping):
        self.asked.append((request, timeout_s, error_of(self.response)))
        return self.response


def test_commit_request_groups_partitions_by_topic():
    request = commit_request("g", {U0: Committed(5), T1: Committed(2, "x"), T0: Committed(1)})
    assert (request.group_id, request.generation_id, request.member_id) == ("g", -1, "")
    assert [
        (topic.topic, [(each.partition, each.offset, each.metadata) for each in topic.partitions])
        for topic in request.topics
    ] == [("t", [(0, 1, ""), (1, 2, "x")]), ("u", [(0, 5, "")])]
    member = commit_request("g", {T0: Committed(1)}, generation=3, member_id="m")
    assert (member.generation_id, member.member_id) == (3, "m")


def test_commit_error_is_first_error_code():
    assert commit_error(committed(0, 0)) == ErrorCode.NONE
    assert commit_error(committed(0, 22, 25)) == ErrorCode.ILLEGAL_GENERATION


def test_missing_offset_is_no_error():
    request = fetch_request("g", [T0, T1])
    assert [(each.topic, each.partitions) for each in request.topics] == [("t", [0, 1])]
    response = fetched((7, None, 0), (-1, "", 0), (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert fetch_error(response) == ErrorCode.NONE
    assert fetched_offsets("g", [T0, T1, ("t", 2)], response) == {
        T0: Committed(7),
        T1: None,
        ("t", 2): None,
    }


@pytest.mark.parametrize(
    "response",
    [fetched(error=ErrorCode.NOT_COORDINATOR), fetched((-1, "", ErrorCode.NOT_COORDINATOR))],
)
def test_error_of_response_or_partition_is_raised(response):
    with pytest.raises(ProtocolError, match="group g") as raised:
        fetched_offsets("g", [T0], response)
    assert raised.value.code is ErrorCode.NOT_COORDINATOR


def test_zookeeper_offsets_use_version_0():
    cluster = PlayedCluster(lambda connection, request: committed(0))
    commit_offsets(cluster.any_connection(), "g", {T0: 4})
    assert cluster.asked[0][2] == 0
    refused = committed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    cluster.answer = lambda connection, request: refused
    with pytest.raises(ProtocolError, match="commit of group g"):
        commit_offsets(cluster.any_connection(), "g", {T0: 4})
    cluster.answer = lambda connection, request: fetched((9, "", 0))
    assert fetch_offsets(cluster.any_connection(), "g", [T0, T1]) == {T0: 9, T1: None}
    assert {version for *_, version in cluster.asked} == {0}


def test_coordinator_offsets_pass_timeout_and_raise_errors():
    coordinator = FakeCoordinator(committed(0))
    offsets = CoordinatorOffsets(coordinator, "g", timeout_s=3)
    offsets.commit({})
    assert coordinator.asked == []
    offsets.commit({T0: 4})
    assert coordinator.asked[0][1:] == (3, ErrorCode.NONE)
    coordinator.response = committed(ErrorCode.INVALID_GROUP_ID)
    with pytest.raises(ProtocolError, match="commit of group g"):
        offsets.commit({T0: 4})
    coordinator.response = fetched((9, "", 0))
    assert offsets.read([]) == {}
    assert offsets.read([T0, T1]) == {T0: 9, T1: None}
