"""Creates and deletes topics, deletes records, and adds partitions.

CreateTopics (19), DeleteTopics (20), DeleteRecords (21), CreatePartitions (37).
"""

from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    boolean,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)


@wire_message
class ReplicaAssignment:
    partition: int = int32()
    broker_ids: list[int] = array(Kind.INT32)


@wire_message
class TopicConfig:
    name: str = string()
    value: str | None = string(nullable=0, default=None)


@wire_message
class NewTopic:
    """Args: num_partitions and replication_factor: -1 if assignments are given."""

    topic: str = string()
    num_partitions: int = int32(default=-1)
    replication_factor: int = int16(default=-1)
    assignments: list[ReplicaAssignment] = array(ReplicaAssignment)
    configs: list[TopicConfig] = array(TopicConfig)


@wire_message
class CreateTopicsRequest(Request):
    topics: list[NewTopic] = array(NewTopic)
    timeout_ms: int = int32(default=30000)
    validate_only: bool = boolean(since=1)


@wire_message
class CreatedTopic:
    topic: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=1, nullable=1, default=None)


@wire_message
class CreateTopicsResponse:
    throttle_time_ms: int = int32(since=2)
    topics: list[CreatedTopic] = array(CreatedTopic)


@wire_message
class DeleteTopicsRequest(Request):
    topics: list[str] = array(Kind.STRING)
    timeout_ms: int = int32(default=30000)


@wire_message
class DeletedTopic:
    topic: str = string()
    error_code: int = int16()


@wire_message
class DeleteTopicsResponse:
    throttle_time_ms: int = int32(since=1)
    topics: list[DeletedTopic] = array(DeletedTopic)


@wire_message
class DeleteRecordsRequestPartition:
    """Args: offset is the new log start offset; -1 means the high watermark."""

    partition: int = int32()
    offset: int = int64()


@wire_message
class DeleteRecordsRequestTopic:
    topic: str = string()
    partitions: list[DeleteRecordsRequestPartition] = array(DeleteRecordsRequestPartition)


@wire_message
class DeleteRecordsRequest(Request):
    topics: list[DeleteRecordsRequestTopic] = array(DeleteRecordsRequestTopic)
    timeout_ms: int = int32(default=30000)


@keyword_message
class DeleteRecordsResponsePartition:
    partition: int = int32()
    low_watermark: int = int64(default=-1)
    error_code: int = int16()


@wire_message
class DeleteRecordsResponseTopic:
    topic: str = string()
    partitions: list[DeleteRecordsResponsePartition] = array(DeleteRecordsResponsePartition)


@wire_message
class DeleteRecordsResponse:
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsResponseTopic] = array(DeleteRecordsResponseTopic)


@wire_message
class NewPartitionAssignment:
    broker_ids: list[int] = array(Kind.INT32)


@wire_message
class NewPartitions:
    """Args: count is the new total; assignments, one per added partition, may be null."""

    topic: str = string()
    count: int = int32()
    assignments: list[NewPartitionAssignment] | None = array(
        NewPartitionAssignment, nullable=0, default=None
    )


@wire_message
class CreatePartitionsRequest(Request):
    topics: list[NewPartitions] = array(NewPartitions)
    timeout_ms: int = int32(default=30000)
    validate_only: bool = boolean()


@wire_message
class CreatedPartitions:
    topic: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@wire_message
class CreatePartitionsResponse:
    throttle_time_ms: int = int32()
    topics: list[CreatedPartitions] = array(CreatedPartitions)
