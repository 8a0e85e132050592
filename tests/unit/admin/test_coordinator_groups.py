"""Requests of tools to a coordinator that moves, loads its groups or is lost."""

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.admin import coordinator_groups
from zkbroker.errors import ClientError, ErrorCode, NetworkError, ProtocolError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from zkbroker.protocol.messages.groups import (
    DeletedGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

LOST = NetworkError("connection lost")


class GroupCluster(PlayedCluster):
    """Two brokers; the second coordinates the group. An API answers `failures` first."""

    def __init__(self, api=None, *failures, members=()):
        super().__init__(brokers=(1, 2))
        self.api, self.failures, self.members = api, list(failures), members
        self.found = 0
        self.committed = None

    def answer(self, connection, request):
        failure = self.failures.pop(0) if request.api_key == self.api and self.failures else 0
        if isinstance(failure, Exception):
            return failure
        if request.api_key == ApiKey.OFFSET_COMMIT:
            self.committed = request
        return getattr(self, request.api_key.name.lower())(int(failure))

    def find_coordinator(self, code):
        self.found += 1
        return FindCoordinatorResponse(error_code=code, node_id=2)

    def list_groups(self, code):
        groups = [] if code else [ListedGroup("g", "consumer")]
        return ListGroupsResponse(error_code=code, groups=groups)

    def describe_groups(self, code):
        members = [DescribedMember("m", "client", "/host") for _ in self.members]
        group = DescribedGroup(
            error_code=code, group_id="g", state="Empty", protocol_type="", members=members
        )
        return DescribeGroupsResponse(groups=[group])

    def offset_fetch(self, code):
        topics = [OffsetFetchResponseTopic("t", [OffsetFetchResponsePartition(0, 7)])]
        return OffsetFetchResponse(topics=[] if code else topics, error_code=code)

    def offset_commit(self, code):
        answer = OffsetCommitResponsePartition(0, code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", [answer])])

    def delete_groups(self, code):
        return DeleteGroupsResponse(groups=[DeletedGroup("g", code)])


PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    LOST,
)


@pytest.fixture(autouse=True)
def short_retries(monkeypatch):
    monkeypatch.setattr(coordinator_groups, "_RETRY_MS", 1)


@pytest.mark.parametrize("failure", PASSING)
@pytest.mark.parametrize(
    "api", [ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH]
)
def test_describe_retries_passing_errors(api, failure):
    cluster = GroupCluster(api, failure, failure)
    described = coordinator_groups.describe(cluster, "g")
    assert (described.state, described.offsets) == ("Empty", {("t", 0): 7})
    assert described.coordinator == 2


def test_moved_coordinator_is_looked_up_again():
    cluster = GroupCluster(ApiKey.DESCRIBE_GROUPS, ErrorCode.NOT_COORDINATOR)
    coordinator_groups.describe(cluster, "g")
    assert cluster.found == 2


@pytest.mark.parametrize("failure", PASSING)
def test_list_retries_passing_errors(failure):
    cluster = GroupCluster(ApiKey.LIST_GROUPS, failure)
    assert coordinator_groups.list_groups(cluster) == {"g": "consumer"}


@pytest.mark.parametrize("failure", PASSING)
def test_commit_retries_passing_errors(failure):
    cluster = GroupCluster(ApiKey.OFFSET_COMMIT, failure)
    coordinator_groups.set_offsets(cluster, "g", {("t", 0): 5})
    (topic,) = cluster.committed.topics
    assert (topic.topic, topic.partitions[0].offset) == ("t", 5)


@pytest.mark.parametrize("failure", PASSING)
def test_delete_retries_passing_errors(failure):
    coordinator_groups.delete(GroupCluster(ApiKey.DELETE_GROUPS, failure), "g")


def test_refused_deletion_is_raised_at_once():
    cluster = GroupCluster(ApiKey.DELETE_GROUPS, *[ErrorCode.NON_EMPTY_GROUP] * 2)
    with pytest.raises(ProtocolError, match="group g has members"):
        coordinator_groups.delete(cluster, "g")
    assert len(cluster.failures) == 1


def test_offsets_of_group_with_members_are_refused():
    with pytest.raises(ClientError, match="1 member now"):
        coordinator_groups.set_offsets(GroupCluster(members=["m"]), "g", {("t", 0): 5})
    joined = GroupCluster(ApiKey.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(ClientError, match="has members now"):
        coordinator_groups.set_offsets(joined, "g", {("t", 0): 5})
