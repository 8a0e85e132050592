"""The group APIs on the wire, answered as genuine brokers answered them."""

import json
import uuid
from pathlib import Path

import pytest

from tests.support.broker_requests import fetch
from tests.support.process import wait_until
from zkbroker.errors import ErrorCode
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey, decode_request, decode_response
from zkbroker.protocol.consumer_protocol import Subscription, encode_subscription
from zkbroker.protocol.messages import (
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from zkbroker.protocol.messages.membership import JoinGroupProtocol, SyncGroupAssignment
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)
from zkbroker.protocol.offsets_topic import OffsetKey, decode_key, decode_offset
from zkbroker.records import iter_records
from zkbroker.runtime import get_runtime

GOLDEN = Path(__file__).parents[1] / "golden" / "data" / "wire" / "kafka-2.3.0.jsonl"
METADATA = encode_subscription(Subscription(["t"]))


@pytest.fixture
def group(connection):
    """An unused group id, with its coordinator ready."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    ready(connection, name)
    return name


def ready(connection, name):
    def found():
        return connection.request(FindCoordinatorRequest(name)).error_code == 0

    assert wait_until(found)
    assert wait_until(
        lambda: connection.request(OffsetFetchRequest(name, [])).error_code == ErrorCode.NONE
    )


def join(connection, group, member_id="", *, version=None, session_ms=120_000, protocol="range"):
    request = JoinGroupRequest(
        group, session_ms, 60_000, member_id, "consumer", [JoinGroupProtocol(protocol, METADATA)]
    )
    return connection.send(request, version)


def stable(connection, group):
    joined = join(connection, group).result()
    share = [SyncGroupAssignment(joined.member_id, b"share")]
    synced = connection.request(
        SyncGroupRequest(group, joined.generation_id, joined.member_id, share)
    )
    assert (synced.error_code, synced.assignment) == (0, b"share")
    return joined


def commit(connection, group, topic, offset, *, version=None, partition=0, **request):
    answer = connection.request(
        OffsetCommitRequest(
            group,
            topics=[
                OffsetCommitRequestTopic(
                    topic, [OffsetCommitRequestPartition(partition, offset, metadata="m")]
                )
            ],
            **request,
        ),
        version,
    )
    return answer.topics[0].partitions[0].error_code


def fetched(connection, group, topic, *, version=None, partition=0):
    answer = connection.request(
        OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [partition])]), version
    )
    found = answer.topics[0].partitions[0]
    return found.offset, found.metadata, found.error_code


@pytest.mark.parametrize("version", range(3))
def test_coordinator_is_returned_in_every_version(connection, broker, group, version):
    found = connection.request(FindCoordinatorRequest(group), version)
    assert (found.error_code, found.node_id, found.port) == (0, 0, broker.address[1])
    if version:
        assert found.error_message == "NONE"  # as genuine brokers answer


def test_transaction_coordinator_exists_at_first_request(connection, broker):
    asked = FindCoordinatorRequest("tx", 1)
    assert wait_until(lambda: connection.request(asked).error_code == 0)
    assert connection.request(asked).port == broker.address[1]
    answer = connection.request(MetadataRequest(["__transaction_state"]))
    assert answer.topics[0].is_internal
    assert len(answer.topics[0].partitions) == 50


def test_unknown_coordinator_type_is_refused(connection):
    answer = connection.request(FindCoordinatorRequest("tx", 2))
    assert (answer.error_code, answer.host, answer.port) == (-1, "", -1)


def test_offsets_topic_is_internal_and_compacted(connection, group):
    answer = connection.request(MetadataRequest(["__consumer_offsets"]))
    assert answer.topics[0].is_internal
    assert len(answer.topics[0].partitions) == 5


@pytest.mark.parametrize("version", range(4))
def test_member_joins_syncs_heartbeats_and_leaves(connection, group, version):
    joined = join(connection, group, version=version).result()
    member = joined.member_id
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member)
    assert member.startswith("test-")
    assert [(m.member_id, m.metadata) for m in joined.members] == [(member, METADATA)]
    older = min(version, 2)
    assignments = [SyncGroupAssignment(member, b"share")]
    synced = connection.request(SyncGroupRequest(group, 1, member, assignments), older)
    assert (synced.error_code, synced.assignment) == (0, b"share")
    assert connection.request(HeartbeatRequest(group, 1, member), older).error_code == 0
    wrong = connection.request(HeartbeatRequest(group, 6, member), older)
    assert wrong.error_code == ErrorCode.ILLEGAL_GENERATION
    unknown = connection.request(HeartbeatRequest(group, 1, "unknown"), older)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    described = connection.request(DescribeGroupsRequest([group]), older).groups[0]
    assert (described.state, described.protocol_type, described.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    (found,) = described.members
    assert (found.client_id, found.client_host) == ("test", "/127.0.0.1")
    assert (found.metadata, found.assignment) == (METADATA, b"share")
    listed = connection.request(ListGroupsRequest(), older).groups
    assert (group, "consumer") in [(each.group_id, each.protocol_type) for each in listed]
    assert connection.request(LeaveGroupRequest(group, member), older).error_code == 0
    assert connection.request(DescribeGroupsRequest([group])).groups[0].state == "Empty"


def test_waiting_join_does_not_block_other_connections(connection, broker, group):
    joined = stable(connection, group)
    with BrokerConnection(get_runtime("threads"), *broker.address, client_id="second") as other:
        waiting = join(other, group)
        beat = HeartbeatRequest(group, 1, joined.member_id)
        assert wait_until(
            lambda: connection.request(beat).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        )
        assert not waiting.done
        again = join(connection, group, joined.member_id).result()
        newcomer = waiting.result()
        assert again.generation_id == newcomer.generation_id == 2
        assert newcomer.leader == joined.member_id
        assert newcomer.members == []
        assert len(again.members) == 2


def test_newcomer_disconnected_during_join_is_removed(connection, broker, group):
    """As its leader it would have the others wait for the end of its session."""
    joined = stable(connection, group)
    with BrokerConnection(get_runtime("threads"), *broker.address, client_id="goes") as other:
        join(other, group, session_ms=300_000)
        beat = HeartbeatRequest(group, 1, joined.member_id)
        assert wait_until(
            lambda: connection.request(beat).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        )

    def members():
        (described,) = connection.request(DescribeGroupsRequest([group])).groups
        return [each.client_id for each in described.members]

    assert wait_until(lambda: "goes" not in members())
    again = join(connection, group, joined.member_id).result()
    assert (again.generation_id, len(again.members)) == (2, 1)


def test_invalid_joins_are_refused(connection, group):
    stable(connection, group)
    assert join(connection, group, protocol="other").result().error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert join(connection, group, "made-up").result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert join(connection, group, session_ms=1).result().error_code == (
        ErrorCode.INVALID_SESSION_TIMEOUT
    )
    assert join(connection, "").result().error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(1, 7))
def test_offsets_round_trip_in_every_version(connection, group, topic, version):
    assert commit(connection, group, topic, 41 + version, version=version) == 0
    for fetch_version in range(1, 6):
        found = fetched(connection, group, topic, version=fetch_version)
        assert found == (41 + version, "m", 0)
        nothing = fetched(connection, group, topic, version=fetch_version, partition=7)
        assert nothing == (-1, "", 0)
    all_topics = connection.request(OffsetFetchRequest(group, None))
    assert [t.topic for t in all_topics.topics] == [topic]
    assert fetched(connection, group, topic, version=0) == (-1, "", 3)


def test_version_0_stores_offsets_in_zookeeper(connection, group, topic):
    assert commit(connection, group, topic, 5, version=0) == 0
    assert fetched(connection, group, topic, version=0) == (5, "", 0)
    assert fetched(connection, group, topic, version=1) == (-1, "", 0)
    assert commit(connection, group, "no-such-topic", 5, version=0) == 3
    assert fetched(connection, group, topic, version=0, partition=9) == (-1, "", 3)


def test_invalid_commits_are_refused(connection, group, topic):
    joined = stable(connection, group)
    member = {"member_id": joined.member_id, "generation_id": 1}
    assert commit(connection, group, topic, 1, **member) == 0
    assert commit(connection, group, topic, 1, **{**member, "generation_id": 7}) == (
        ErrorCode.ILLEGAL_GENERATION
    )
    assert commit(connection, group, topic, 1, **{**member, "member_id": "x"}) == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert commit(connection, group, topic, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(connection, group, topic, 1, partition=9, **member) == 3
    assert commit(connection, group, "no-such-topic", 1, **member) == 3
    long = OffsetCommitRequestPartition(0, 1, metadata="x" * 4097)
    answer = connection.request(
        OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, [long])], **member)
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_commit_is_readable_in_offsets_topic(connection, group, topic):
    assert commit(connection, group, topic, 99) == 0
    found = []
    for number in range(5):
        offset = 0
        while True:
            part = fetch(connection, "__consumer_offsets", offset, partition=number)
            records = list(iter_records(part.records, start_offset=offset))
            if not records:
                break
            offset = records[-1].offset + 1
            found += [
                decode_offset(r.value).offset
                for r in records
                if r.value is not None and decode_key(r.key) == OffsetKey(group, topic, 0)
            ]
    assert found == [99]


def test_only_empty_group_is_deleted(connection, group, topic):
    joined = stable(connection, group)
    delete = DeleteGroupsRequest([group, "never-was"])
    answers = {g.group_id: g.error_code for g in connection.request(delete).groups}
    assert answers == {group: ErrorCode.NON_EMPTY_GROUP, "never-was": ErrorCode.GROUP_ID_NOT_FOUND}
    commit(connection, group, topic, 1, member_id=joined.member_id, generation_id=1)
    connection.request(LeaveGroupRequest(group, joined.member_id))
    assert connection.request(DeleteGroupsRequest([group])).groups[0].error_code == 0
    assert connection.request(DescribeGroupsRequest([group])).groups[0].state == "Dead"
    assert fetched(connection, group, topic)[0] == -1


def test_offsets_of_a_deleted_topic_are_forgotten(connection, group, topic):
    assert commit(connection, group, topic, 1) == 0
    connection.request(DeleteTopicsRequest([topic]))
    assert wait_until(lambda: fetched(connection, group, topic)[0] == -1)


def recorded(*keys):
    entries = map(json.loads, GOLDEN.read_text().splitlines())
    return [
        pytest.param(entry, id=f"{number} {entry['name']}")
        for number, entry in enumerate(entries)
        if entry["api_key"] in keys and entry["name"] != "FindCoordinator v0"  # being made then
    ]


@pytest.mark.parametrize(
    "entry", recorded(ApiKey.JOIN_GROUP, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH)
)
def test_responses_match_genuine_brokers(connection, group, topic, entry):
    """The recorded request, for a group and topic of our own, is answered like the recording."""
    _, request = decode_request(bytes.fromhex(entry["request"]))
    _, genuine = decode_response(
        entry["api_key"], entry["api_version"], bytes.fromhex(entry["response"])
    )
    if entry["api_key"] == ApiKey.FIND_COORDINATOR:
        ours = connection.request(request, entry["api_version"])
        assert (ours.error_code, ours.error_message) == (
            genuine.error_code,
            genuine.error_message,
        )
    elif entry["api_key"] == ApiKey.JOIN_GROUP:
        request.group_id = group
        ours = connection.request(request, entry["api_version"])
        for response in (ours, genuine):
            response.member_id = response.leader = response.members[0].member_id = "-"
        assert ours == genuine
    else:
        kept = entry["api_version"] == 0
        commit(connection, group, topic, 5 if kept else 7, version=0 if kept else 2)
        request.group_id, request.topics[0].topic = group, topic
        ours = connection.request(request, entry["api_version"])
        genuine.topics[0].topic = topic
        for part in (*ours.topics[0].partitions, *genuine.topics[0].partitions):
            part.metadata = ""
        assert ours == genuine
