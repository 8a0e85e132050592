"""OffsetCommit (8) and OffsetFetch (9): the committed offsets of groups.

Version 0 of both keeps the offsets in ZooKeeper, later ones in the topic `__consumer_offsets`. A
commit may set its own retention in 2-4; since version 2, null in OffsetFetch asks for all
partitions.
"""

from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)


@keyword_message
class OffsetCommitRequestPartition:
    """Args: timestamp: the time of the commit, in version 1 only; -1 means now."""

    partition: int = int32()
    offset: int = int64()
    leader_epoch: int = int32(since=6, default=-1)
    timestamp: int = int64(since=1, until=1, default=-1)
    metadata: str | None = string(nullable=0)


@wire_message
class OffsetCommitRequestTopic:
    topic: str = string()
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@wire_message
class OffsetCommitRequest(Request):
    """Args: generation_id -1 and member_id "" for a consumer outside group management."""

    group_id: str = string()
    generation_id: int = int32(since=1, default=-1)
    member_id: str = string(since=1)
    retention_time_ms: int = int64(since=2, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@wire_message
class OffsetCommitResponsePartition:
    partition: int = int32()
    error_code: int = int16()


@wire_message
class OffsetCommitResponseTopic:
    topic: str = string()
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@wire_message
class OffsetCommitResponse:
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


@wire_message
class OffsetFetchRequestTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class OffsetFetchRequest(Request):
    group_id: str = string()
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, nullable=2)


@keyword_message
class OffsetFetchResponsePartition:
    """Args: offset: -1 if none was committed."""

    partition: int = int32()
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=5, default=-1)
    metadata: str | None = string(nullable=0)
    error_code: int = int16()


@wire_message
class OffsetFetchResponseTopic:
    topic: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@wire_message
class OffsetFetchResponse:
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic)
    error_code: int = int16(since=2)
