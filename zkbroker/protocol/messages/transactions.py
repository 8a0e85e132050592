"""Transactions of producers: the requests 24, 25, 26 and 28 to coordinators.

    AddPartitionsToTxn (24)  before the first Produce to a partition in a transaction
    AddOffsetsToTxn (25)     before offsets of a group are committed in it
    EndTxn (26)              commit or abort
    TxnOffsetCommit (28)     to the group's coordinator: offsets that take effect with the commit

If two versions share a layout, the higher one tells clients that the answer comes before the
throttling.
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
class TxnTopicPartitions:
    """Partitions of one topic, by number."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class TxnPartitionError:
    partition: int = int32()
    error_code: int = int16()


@wire_message
class TxnTopicErrors:
    topic: str = string()
    partitions: list[TxnPartitionError] = array(TxnPartitionError)


@wire_message
class AddPartitionsToTxnRequest(Request):
    transactional_id: str = string()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    topics: list[TxnTopicPartitions] = array(TxnTopicPartitions)


@wire_message
class AddPartitionsToTxnResponse:
    """Each requested partition has its own error code; there is no common one."""

    throttle_time_ms: int = int32()
    topics: list[TxnTopicErrors] = array(TxnTopicErrors)


@wire_message
class AddOffsetsToTxnRequest(Request):
    transactional_id: str = string()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    group_id: str = string()


@wire_message
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()


@wire_message
class EndTxnRequest(Request):
    """Args: committed: True to commit, False to abort."""

    transactional_id: str = string()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    committed: bool = boolean()


@wire_message
class EndTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()


@keyword_message
class TxnOffsetCommitRequestPartition:
    partition: int = int32()
    offset: int = int64()
    leader_epoch: int = int32(since=2, default=-1)
    metadata: str | None = string(nullable=0)


@wire_message
class TxnOffsetCommitRequestTopic:
    topic: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@wire_message
class TxnOffsetCommitRequest(Request):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@wire_message
class TxnOffsetCommitResponse:
    throttle_time_ms: int = int32()
    topics: list[TxnTopicErrors] = array(TxnTopicErrors)
