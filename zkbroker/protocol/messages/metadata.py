"""Metadata (3): the brokers, and the leaders and replicas of partitions.

In version 0 an empty list of topics asks for all; since version 1 null does, and an empty list asks
for none.
"""

from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    boolean,
    int16,
    int32,
    keyword_message,
    string,
    wire_message,
)


@wire_message
class MetadataRequest(Request):
    topics: list[str] | None = array(Kind.STRING, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)


@wire_message
class MetadataBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=1, default=None)


@keyword_message
class MetadataPartition:
    error_code: int = int16()
    partition: int = int32()
    leader: int = int32(default=-1)
    leader_epoch: int = int32(since=7, default=-1)
    replicas: list[int] = array(Kind.INT32)
    isr: list[int] = array(Kind.INT32)
    offline_replicas: list[int] = array(Kind.INT32, since=5)


@wire_message
class MetadataTopic:
    error_code: int = int16()
    topic: str = string()
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataPartition] = array(MetadataPartition)


@wire_message
class MetadataResponse:
    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataBroker] = array(MetadataBroker)
    cluster_id: str | None = string(since=2, nullable=2, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataTopic] = array(MetadataTopic)
