"""ElectPreferredLeaders (43): make the first replica of partitions their leader again.

Null topics ask for all partitions.
"""

from zkbroker.protocol.schema import Kind, Request, array, int16, int32, string, wire_message


@wire_message
class ElectPreferredLeadersTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class ElectPreferredLeadersRequest(Request):
    topics: list[ElectPreferredLeadersTopic] | None = array(ElectPreferredLeadersTopic, nullable=0)
    timeout_ms: int = int32()


@wire_message
class ElectedPartition:
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@wire_message
class ElectedTopic:
    topic: str = string()
    partitions: list[ElectedPartition] = array(ElectedPartition)


@wire_message
class ElectPreferredLeadersResponse:
    throttle_time_ms: int = int32()
    topics: list[ElectedTopic] = array(ElectedTopic)
