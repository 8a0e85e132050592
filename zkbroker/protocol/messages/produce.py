"""Produce (0): append record sets to partitions.

Versions 0-2 carry message sets of magic 0 and 1 (a broker accepts any magic), 3 and later exactly
one magic-2 batch per partition; 7 is the first that may carry zstd. With `acks` 0 there is no
answer.
"""

from zkbroker.protocol.pieces import Records
from zkbroker.protocol.schema import (
    Request,
    array,
    int16,
    int32,
    int64,
    keyword_message,
    records,
    string,
    wire_message,
)


@wire_message
class ProduceRequestPartition:
    partition: int = int32()
    records: Records = records()


@wire_message
class ProduceRequestTopic:
    topic: str = string()
    partitions: list[ProduceRequestPartition] = array(ProduceRequestPartition)


@wire_message
class ProduceRequest(Request):
    """Args: acks 0 (none), 1 (the leader has it) or -1 (all in-sync replicas have it)."""

    transactional_id: str | None = string(since=3, nullable=3, default=None)
    acks: int = int16(default=1)
    timeout_ms: int = int32(default=10000)
    topics: list[ProduceRequestTopic] = array(ProduceRequestTopic)


@keyword_message
class ProduceResponsePartition:
    """Args: log_append_time_ms: -1 unless the topic uses the append time as timestamp."""

    partition: int = int32()
    error_code: int = int16()
    base_offset: int = int64(default=-1)
    log_append_time_ms: int = int64(since=2, default=-1)
    log_start_offset: int = int64(since=5, default=-1)


@wire_message
class ProduceResponseTopic:
    topic: str = string()
    partitions: list[ProduceResponsePartition] = array(ProduceResponsePartition)


@wire_message
class ProduceResponse:
    topics: list[ProduceResponseTopic] = array(ProduceResponseTopic)
    throttle_time_ms: int = int32(since=1)
