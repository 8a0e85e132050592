"""Fetch (1): read record sets from partitions, and wait for data if requested.

Version 3 added `max_bytes` of the whole answer, 4 transactions, 5 the log start offset, 7 fetch
sessions (session id 0 and epoch -1 mean none), 9 leader epochs, 10 zstd, and 11 racks.
"""

from zkbroker.protocol.pieces import Records
from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    int8,
    int16,
    int32,
    int64,
    keyword_message,
    records,
    string,
    wire_message,
)

NO_LIMIT_BYTES = 0x7FFFFFFF
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
COMPARES_REPLICAS = -2
"""Replica id of a client that reads from any replica (`Request.DebuggingConsumerId`)."""


@keyword_message
class FetchRequestPartition:
    """Args: max_bytes bounds this partition's share of the answer."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1)
    fetch_offset: int = int64()
    log_start_offset: int = int64(since=5, default=-1)
    max_bytes: int = int32()


@wire_message
class FetchRequestTopic:
    topic: str = string()
    partitions: list[FetchRequestPartition] = array(FetchRequestPartition)


@wire_message
class ForgottenTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@keyword_message
class FetchRequest(Request):
    """Args: replica_id -1 for a client; isolation_level 0 read uncommitted, 1 read committed."""

    replica_id: int = int32(default=-1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(since=3, default=NO_LIMIT_BYTES)
    isolation_level: int = int8(since=4)
    session_id: int = int32(since=7)
    session_epoch: int = int32(since=7, default=-1)
    topics: list[FetchRequestTopic] = array(FetchRequestTopic)
    forgotten_topics: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11)


@wire_message
class FetchResponseAbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@keyword_message
class FetchResponsePartition:
    """Args: aborted_transactions is null for a reader of uncommitted records."""

    partition: int = int32()
    error_code: int = int16()
    high_watermark: int = int64(default=-1)
    last_stable_offset: int = int64(since=4, default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = array(
        FetchResponseAbortedTransaction, since=4, nullable=4, default=None
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Records = records()


@wire_message
class FetchResponseTopic:
    topic: str = string()
    partitions: list[FetchResponsePartition] = array(FetchResponsePartition)


@keyword_message
class FetchResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    topics: list[FetchResponseTopic] = array(FetchResponseTopic)
