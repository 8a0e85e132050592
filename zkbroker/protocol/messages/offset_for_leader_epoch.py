"""OffsetForLeaderEpoch (23): where a leader epoch ended in the leader's log.

Followers ask before they truncate; consumers ask in order to detect lost records. The answer names
the largest epoch not above the requested one (since version 1) and the offset at which it ended; -1
and -1 if that is unknown. Version 2 adds a check of the sender's leader epoch, 3 the sender's
replica id.
"""

from zkbroker.protocol.schema import (
    Request,
    array,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@keyword_message
class OffsetForLeaderEpochRequestPartition:
    """Args: current_leader_epoch: -1 is not checked; leader_epoch: the requested epoch."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=2, default=-1)
    leader_epoch: int = int32()


@wire_message
class OffsetForLeaderEpochRequestTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderEpochRequestPartition] = array(
        OffsetForLeaderEpochRequestPartition
    )


@wire_message
class OffsetForLeaderEpochRequest(Request):
    """Args: replica_id: -1 for a consumer, -2 for a tool that reads beyond the high watermark."""

    replica_id: int = int32(since=3, default=-2)
    topics: list[OffsetForLeaderEpochRequestTopic] = array(OffsetForLeaderEpochRequestTopic)


@keyword_message
class OffsetForLeaderEpochResponsePartition:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(since=1, default=UNDEFINED_EPOCH)
    end_offset: int = int64(default=UNDEFINED_OFFSET)


@wire_message
class OffsetForLeaderEpochResponseTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderEpochResponsePartition] = array(
        OffsetForLeaderEpochResponsePartition
    )


@wire_message
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32(since=2)
    topics: list[OffsetForLeaderEpochResponseTopic] = array(OffsetForLeaderEpochResponseTopic)
