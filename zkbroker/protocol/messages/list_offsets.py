"""ListOffsets (2): the offset for a point in time.

Timestamp -1 asks for the log end offset, -2 for the log start offset. Version 0 answers with a list
of segment base offsets, newest first; later versions with a single offset and its timestamp.
"""

from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    int8,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


@keyword_message
class ListOffsetsRequestPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1)
    timestamp: int = int64(default=LATEST_TIMESTAMP)
    max_num_offsets: int = int32(until=0, default=1)


@wire_message
class ListOffsetsRequestTopic:
    topic: str = string()
    partitions: list[ListOffsetsRequestPartition] = array(ListOffsetsRequestPartition)


@wire_message
class ListOffsetsRequest(Request):
    replica_id: int = int32(default=-1)
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsRequestTopic] = array(ListOffsetsRequestTopic)


@keyword_message
class ListOffsetsResponsePartition:
    """Args: offsets in version 0; timestamp and offset, both -1 if there is none, since 1."""

    partition: int = int32()
    error_code: int = int16()
    offsets: list[int] = array(Kind.INT64, until=0)
    timestamp: int = int64(since=1, default=-1)
    offset: int = int64(since=1, default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@wire_message
class ListOffsetsResponseTopic:
    topic: str = string()
    partitions: list[ListOffsetsResponsePartition] = array(ListOffsetsResponsePartition)


@wire_message
class ListOffsetsResponse:
    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsResponseTopic] = array(ListOffsetsResponseTopic)
