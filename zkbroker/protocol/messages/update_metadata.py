"""UpdateMetadata (6): the controller sends every broker the live brokers and the leaders.

Version 1 adds an endpoint per security protocol (with the port first), 2 the rack, 3 the listener's
name, 4 the offline replicas, 5 the broker epoch of the receiver and partitions grouped by topic.
Partitions that a request does not name keep their earlier state; brokers that it does not name are
gone.
"""

from zkbroker.protocol.messages.leader_and_isr import NO_BROKER_EPOCH, NO_LEADER
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
class UpdateMetadataPartition:
    """Args: leader: -1 while there is none, -2 while the topic is being deleted."""

    topic: str = string(until=4)
    partition: int = int32()
    controller_epoch: int = int32()
    leader: int = int32(default=NO_LEADER)
    leader_epoch: int = int32()
    isr: list[int] = array(Kind.INT32)
    zk_version: int = int32()
    replicas: list[int] = array(Kind.INT32)
    offline_replicas: list[int] = array(Kind.INT32, since=4)


@wire_message
class UpdateMetadataTopic:
    topic: str = string()
    partition_states: list[UpdateMetadataPartition] = array(UpdateMetadataPartition)


@wire_message
class UpdateMetadataEndpoint:
    """Args: security_protocol 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    port: int = int32()
    host: str = string()
    listener: str = string(since=3)
    security_protocol: int = int16()


@wire_message
class UpdateMetadataBroker:
    """Args: host and port in version 0, endpoints since 1."""

    id: int = int32()
    host: str = string(until=0)
    port: int = int32(until=0)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, since=1)
    rack: str | None = string(since=2, nullable=2, default=None)


@keyword_message
class UpdateMetadataRequest(Request):
    """Args: partition_states until version 4, topic_states since 5."""

    controller_id: int = int32()
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=5, default=NO_BROKER_EPOCH)
    partition_states: list[UpdateMetadataPartition] = array(UpdateMetadataPartition, until=4)
    topic_states: list[UpdateMetadataTopic] = array(UpdateMetadataTopic, since=5)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@wire_message
class UpdateMetadataResponse:
    error_code: int = int16()
