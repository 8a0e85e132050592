"""Produce: append what producers send."""

import logging
import struct

from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidTopic,
    NotEnoughReplicas,
    ProtocolError,
    ZkbrokerError,
)
from zkbroker.network.server import CloseConnection, Session
from zkbroker.protocol import RequestHeader
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import (
    ProduceRequestPartition,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records import check_produce

logger = logging.getLogger(__name__)

ADMIN_CLIENT = "__admin_client"
IN_SYNC = 1
"""Replicas in sync of every hosted partition: its leader."""
_BATCH_HEADER_BYTES = 61
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT = 8, 16, 22
_CODEC_BITS = 0x07
_LENGTH = struct.Struct(">i")


class ProduceHandler:
    """Handles Produce.

    With acks 1 and -1 the answer waits until the log's flush policy is met, or the request's
    time-out passed (error 7: the messages are appended, whether they are on disk is unknown); with
    one replica both mean the same. A partition that asks for more replicas in sync than that
    (`min.insync.replicas`) takes nothing with acks -1. With acks 0 there is no answer, and an error
    closes the connection, which is the only way to tell a client that listens to nothing.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(
        self, request: ProduceRequest, header: RequestHeader, session: Session
    ) -> ProduceResponse | None:
        version = header.api_version
        acks = request.acks
        # Without a time-out of its own the request waits as long as the disk takes.
        timeout_s = request.timeout_ms / 1000 if request.timeout_ms > 0 else None
        refused: ProtocolError | None = None
        if acks not in (0, 1, -1):
            refused = ProtocolError(
                f"acks={acks} is not 0, 1 or -1", code=ErrorCode.INVALID_REQUIRED_ACKS
            )
        elif request.transactional_id is not None:
            refused = ProtocolError(
                "transactions are not served",
                code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        answered = []
        for topic in request.topics:
            name = topic.topic
            problem = refused
            if problem is None and name in INTERNAL_TOPICS and header.client_id != ADMIN_CLIENT:
                problem = InvalidTopic(f"{name} is internal")
            partitions = [
                self._append(name, partition, version, acks, timeout_s, problem)
                for partition in topic.partitions
            ]
            answered.append(ProduceResponseTopic(name, partitions))
        if acks == 0:
            for response_topic in answered:
                for response in response_topic.partitions:
                    if response.error_code:
                        raise CloseConnection(
                            f"produce with acks=0 failed: {response_topic.topic}-"
                            f"{response.partition} {ErrorCode(response.error_code).name}"
                        )
            return None
        return ProduceResponse(answered)

    def _append(
        self,
        topic: str,
        partition: ProduceRequestPartition,
        version: int,
        acks: int,
        timeout_s: float | None,
        problem: ProtocolError | None,
    ) -> ProduceResponsePartition:
        data = partition.records
        try:
            if problem is not None:
                raise problem
            services = self._services
            hosted = services.hosting.get(topic, partition.partition)
            if hosted is None:
                hosted = services.hosted(topic, partition.partition)
            if not isinstance(data, memoryview) or (version >= 3 and not len(data)):
                raise CorruptMessage("no message in the record set")
            if not len(data):
                # An old producer may send nothing at all; Kafka answers no error and no offset.
                return ProduceResponsePartition(partition.partition, 0)
            if version >= 3 and not _is_plain_batch(data):
                check_produce(data, version)
            metrics = hosted.metrics
            metrics.produces += 1
            log = hosted.log
            if acks == -1 and log.config.min_insync_replicas > IN_SYNC:
                raise NotEnoughReplicas(
                    f"min.insync.replicas={log.config.min_insync_replicas}, in sync {IN_SYNC}"
                )
            result = log.append(data)
            if not result.duplicate:
                metrics.messages_in += result.count
                metrics.bytes_in += result.size_bytes
            if acks:
                log.wait_durable(result.last_offset, timeout_s)
        except ZkbrokerError as error:
            return self._failed(topic, partition, error)
        return ProduceResponsePartition(
            partition.partition,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )

    def _failed(
        self, topic: str, partition: ProduceRequestPartition, error: ZkbrokerError
    ) -> ProduceResponsePartition:
        code = error_code(error)
        # Topics that do not exist get no counts of their own: their names are without bound.
        hosted = self._services.hosting.get(topic, partition.partition)
        metrics = hosted.metrics if hosted is not None else self._services.metrics.topic("other")
        metrics.failed_produces += 1
        if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            data = partition.records
            metrics.bytes_rejected += len(data) if isinstance(data, memoryview) else 0
        logger.info(
            "produce failed partition=%s-%d code=%s error=%s",
            topic,
            partition.partition,
            code.name,
            error,
        )
        return ProduceResponsePartition(partition.partition, code)


def _is_plain_batch(data: memoryview) -> bool:
    """Tell at a glance that a set is one batch of magic 2 that no version forbids."""
    return (
        len(data) >= _BATCH_HEADER_BYTES
        and data[_MAGIC_AT] == 2
        and not data[_ATTRIBUTES_AT] & _CODEC_BITS
        and _LENGTH.unpack_from(data, _LENGTH_AT)[0] == len(data) - _LENGTH_AT - _LENGTH.size
    )
