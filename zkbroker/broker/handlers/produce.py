"""Produce: append what producers send."""

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidTopic,
    ProtocolError,
    ZkbrokerError,
)
from zkbroker.log.producers.stability import Verification
from zkbroker.measures import OTHER
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import (
    ProduceRequestPartition,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records import NOTHING, RequestBudget, check_produce, is_one_batch
from zkbroker.records.layout import CODEC_MASK, CONTROL_BIT, TRANSACTIONAL_BIT
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.replica.leadership import Leadership
from zkbroker.runtime import Park

logger = logging.getLogger(__name__)

ADMIN_CLIENT = "__admin_client"
_BATCH_HEADER_BYTES = 61
_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_NOT_PLAIN_BITS = CODEC_MASK | TRANSACTIONAL_BIT
_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qh")


Verify = Callable[[str, int, int, Sequence[tuple[str, int]], Park], object]
"""Asks the coordinator of a transaction whether partitions are part of it, and raises if not."""


@dataclass(slots=True)
class _Waiting:
    """What was appended for a partition, and the answer that depends on what becomes of it."""

    topic: str
    asked: ProduceRequestPartition
    appended: Unacknowledged
    answer: ProduceResponsePartition


class ProduceHandler:
    """Handles Produce.

    Everything is appended first; then the request waits once, parked, for all of it. With acks 1
    until the logs' flush policy is met, with -1 until every replica in sync has it as well, or the
    request's time-out passed (error 7: the messages are appended, whether they survive is unknown).
    A partition with fewer replicas in sync than `min.insync.replicas` takes nothing with acks -1.
    A batch that begins a transaction waits for the transaction's coordinator first.
    With acks 0 there is no answer, and an error closes the connection, which is the only way to
    tell a client that listens to nothing.
    """

    def __init__(self, services: BrokerServices, verify: Verify | None = None) -> None:
        self._services = services
        self._verify = verify

    def __call__(self, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
        acks = request.acks
        refused: ProtocolError | None = None
        if acks not in (0, 1, -1):
            refused = ProtocolError(
                f"acks={acks} is not 0, 1 or -1", code=ErrorCode.INVALID_REQUIRED_ACKS
            )
        budgets: list[RequestBudget] = []
        answered = []
        waiting: list[_Waiting] = []
        for topic in request.topics:
            name = topic.topic
            problem = refused
            if problem is None and name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
                problem = InvalidTopic(f"{name} is internal")
            answers: list[ProduceResponsePartition] = []
            answered.append(ProduceResponseTopic(name, answers))
            for partition in topic.partitions:
                if answers or len(answered) > 1:
                    context.pace()
                answers.append(
                    self._append(name, partition, request, context, problem, budgets, waiting)
                )
        if waiting and acks:
            self._wait(request, context, waiting)
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
        request: ProduceRequest,
        context: RequestContext,
        problem: ProtocolError | None,
        budgets: list[RequestBudget],
        waiting: "list[_Waiting]",
    ) -> ProduceResponsePartition:
        data = partition.records
        version = context.api_version
        try:
            if problem is not None:
                raise problem
            services = self._services
            found = services.replicas.partitions.get((topic, partition.partition))
            if found is None or topic in services.view.topics.deleting:
                found = services.partition(topic, partition.partition)
            if not isinstance(data, memoryview) or (version >= 3 and not len(data)):
                raise CorruptMessage("no message in the record set")
            if not len(data):
                # An old producer may send nothing at all; Kafka answers no error and no offset.
                found.leadership()
                return ProduceResponsePartition(partition.partition, 0)
            transactional = False
            budget = expanded = None
            if is_one_batch(data, without=_NOT_PLAIN_BITS):
                expanded = NOTHING
            else:
                if version >= 3:
                    check_produce(data, version)
                transactional = _is_transactional(data)
                budget = self._budget(budgets)
            metrics = services.metrics.topics.get(topic) or services.metrics.topic(topic)
            metrics.produces += 1
            leadership = found.leading or found.leadership()
            verification = None
            if transactional:
                key = (topic, partition.partition)
                verification = self._verified(
                    request.transactional_id, key, leadership, data, context.park
                )
            result = leadership.append(
                data,
                acks=request.acks,
                budget=budget,
                expanded=expanded,
                verification=verification,
            )
            if not result.duplicate:
                metrics.messages_in += result.count
                metrics.bytes_in += result.size_bytes
            safe = leadership.safe(result.last_offset, request.acks)
        except ZkbrokerError as error:
            return ProduceResponsePartition(
                partition.partition, self._failed(topic, partition, error)
            )
        answer = ProduceResponsePartition(
            partition.partition,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
        if not safe:
            appended = Unacknowledged(leadership, result.last_offset)
            waiting.append(_Waiting(topic, partition, appended, answer))
        return answer

    def _budget(self, budgets: list[RequestBudget]) -> RequestBudget:
        """Return what the sets of a request share, made when the first one asks for it."""
        if not budgets:
            config = self._services.config
            budgets.append(RequestBudget(config.max_decompressed_bytes, config.max_request_records))
        return budgets[0]

    def _verified(
        self,
        transactional_id: str | None,
        key: tuple[str, int],
        leadership: Leadership,
        data: memoryview,
        park: Park,
    ) -> Verification | None:
        """Have the coordinator asked about a transaction that a batch would begin.

        Raises:
            ProtocolError: it may not begin here, see `zkbroker.broker.verification`; or the batch
                comes without the transactional id (53).
        """
        if transactional_id is None:
            raise ProtocolError(
                "a transactional batch without a transactional id",
                code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        producer_id, epoch = _PRODUCER.unpack_from(data, _PRODUCER_AT)
        if producer_id < 0:
            return None
        verification = leadership.log.begin_verification(producer_id, epoch)
        if verification is not None and self._verify is not None:
            self._verify(transactional_id, producer_id, epoch, (key,), park)
        return verification

    def _wait(
        self, request: ProduceRequest, context: RequestContext, waiting: "list[_Waiting]"
    ) -> None:
        """Wait once for all that was appended, and say of each what became of it."""
        # Without a time-out of its own the request waits as long as it takes.
        timeout_s = request.timeout_ms / 1000 if request.timeout_ms > 0 else None
        results = wait_for_acks(
            [each.appended for each in waiting],
            request.acks,
            timeout_s,
            runtime=self._services.runtime,
            park=context.park,
        )
        for each, error in zip(waiting, results, strict=True):
            if error is not None:
                each.answer.error_code = self._failed(each.topic, each.asked, error)
                each.answer.base_offset = -1

    def _failed(
        self, topic: str, partition: ProduceRequestPartition, error: ZkbrokerError
    ) -> ErrorCode:
        code = error_code(error)
        # Topics that do not exist get no counts of their own: their names are without bound.
        here = self._services.replicas.get(topic, partition.partition) is not None
        metrics = self._services.metrics.topic(topic if here else OTHER)
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
        return code


def _is_transactional(data: memoryview) -> bool:
    return (
        len(data) >= _BATCH_HEADER_BYTES
        and data[_MAGIC_AT] == 2
        and bool(data[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT)
        and not data[_ATTRIBUTES_AT] & CONTROL_BIT
    )
