"""Offsets by time from one leader."""

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.client.list_offsets import (
    EARLIEST_TIME,
    LATEST_TIME,
    by_topic,
    list_offsets,
    one_offset,
    valid_range,
)
from zkbroker.errors import ErrorCode, NotLeaderForPartition, ProtocolError
from zkbroker.protocol.messages import ListOffsetsResponse
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)


def answer(connection, request):
    """Answer 3 for the start and 9 for the end of partition 0, and refuse partition 1."""
    topics = []
    for topic in request.topics:
        parts = [
            ListOffsetsResponsePartition(
                partition=each.partition,
                error_code=ErrorCode.NOT_LEADER_FOR_PARTITION if each.partition else 0,
                offsets=[9, 6, 3][: each.max_num_offsets],
                offset={EARLIEST_TIME: 3, LATEST_TIME: 9}.get(each.timestamp, -1),
            )
            for each in topic.partitions
        ]
        topics.append(ListOffsetsResponseTopic(topic.topic, parts))
    return ListOffsetsResponse(topics=topics)


@pytest.fixture
def cluster():
    return PlayedCluster(answer, version=4)


@pytest.fixture
def leader(cluster):
    return cluster.connection(0)


def test_by_topic_groups_items_in_order():
    items = {("u", 1): "a", ("t", 2): "b", ("t", 0): "c"}
    assert list(by_topic(items)) == [("t", [(0, "c"), (2, "b")]), ("u", [(1, "a")])]


def test_list_offsets_returns_offset_none_or_error_per_partition(cluster, leader):
    found = list_offsets(leader, {("t", 0): 77, ("t", 1): LATEST_TIME, ("u", 0): LATEST_TIME})
    assert found["t", 0] == []
    assert found["u", 0] == [9]
    assert isinstance(found["t", 1], NotLeaderForPartition)
    assert cluster.asked[0][2] == 4


def test_version_0_returns_requested_number_of_offsets(leader):
    found = list_offsets(leader, {("t", 0): LATEST_TIME}, max_num_offsets=2, version=0)
    assert found == {("t", 0): [9, 6]}


def test_request_carries_known_leader_epochs(cluster, leader):
    times = {("t", 0): LATEST_TIME, ("u", 0): LATEST_TIME}
    list_offsets(leader, times, epochs={("u", 0): 7}, read_committed=True)
    ((_, request, _),) = cluster.asked
    assert [topic.partitions[0].current_leader_epoch for topic in request.topics] == [-1, 7]
    assert request.isolation_level == 1


def test_valid_range_uses_leader_epoch(cluster, leader):
    assert valid_range(leader, "t", 0, 5) == (3, 9)
    epochs = {each.topics[0].partitions[0].current_leader_epoch for _, each, _ in cluster.asked}
    assert epochs == {5}
    assert one_offset(leader, "t", 0, 123) is None
    with pytest.raises(ProtocolError, match="t-1"):
        valid_range(leader, "t", 1)
