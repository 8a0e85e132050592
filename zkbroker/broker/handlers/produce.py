"""Produce: appends producers' messages."""

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import partition_error_code
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidTopic,
    ProtocolError,
    ZkbrokerError,
)
from zkbroker.log import AppendResult
from zkbroker.log.producers.stability import Verification
from zkbroker.measures import OTHER
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import ProduceResponsePartition, ProduceResponseTopic
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.protocol.pieces import Records
from zkbroker.protocol.plain import PlainProduce, ProduceAnswerRow
from zkbroker.records import NOTHING, RequestBudget, check_produce, is_one_batch
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    MAGIC_AT,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.plain_append import append_plain
from zkbroker.runtime import Park

logger = logging.getLogger(__name__)

ADMIN_CLIENT = "__admin_client"
_NOT_PLAIN_BITS = CODEC_MASK | TRANSACTIONAL_BIT
_ANY_MAGIC, _MAGIC_2 = 0b111, 0b100
_PRODUCER = struct.Struct(">qh")

Answers = list[tuple[str, list[ProduceAnswerRow]]]
"""The answer: topics in the order of the request, each with its partitions."""

Verify = Callable[[str, int, int, Sequence[tuple[str, int]], Park], object]
"""Asks a transaction's coordinator whether partitions are part of it, and raises if not."""


@dataclass(slots=True)
class _Waiting:
    """An append to a partition, and the place of its answer."""

    topic: str
    records: Records
    appended: Unacknowledged
    rows: list[ProduceAnswerRow]
    at: int


@dataclass(slots=True)
class _ProduceState:
    """The state that the sets of one request share; the last two fields are created on demand."""

    version: int
    acks: int
    transactional_id: str | None
    context: RequestContext
    waiting: list[_Waiting]
    budget: RequestBudget | None = None
    patience: Patience | None = None


class ProduceHandler:
    """Handles Produce.

    Everything is appended first; then the request waits once, parked, for all of it: with acks 1
    until the logs' flush policy is met, with -1 until every replica in sync has the messages as
    well. If the request's time-out passes first, the error is 7: the messages are appended, but it
    is unknown whether they survive. A partition with fewer replicas in sync than
    `min.insync.replicas` refuses acks -1. A batch that begins a transaction first waits for the
    transaction's coordinator. With acks 0 there is no answer; an error closes the connection, which
    is the only way to inform such a client.
    """

    def __init__(self, services: BrokerServices, verify: Verify | None = None) -> None:
        self._services = services
        self._verify = verify

    def __call__(self, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
        answers = self.append(
            (
                *(0, context.api_version, 0, context.client_id),
                *(request.transactional_id, request.acks, request.timeout_ms),
                [
                    (each.topic, [(one.partition, one.records) for one in each.partitions])
                    for each in request.topics
                ],
            ),
            context,
        )
        if answers is None:
            return None
        return ProduceResponse(
            [
                ProduceResponseTopic(topic, [_partition(row) for row in rows])
                for topic, rows in answers
            ]
        )

    def append(self, request: PlainProduce, context: RequestContext) -> Answers | None:
        """Append the sets of a request, and wait for their acknowledgement.

        Returns:
            The answers; None with acks 0.

        Raises:
            CloseConnection: an append failed, and acks is 0.
        """
        _, version, _, client_id, transactional_id, acks, timeout_ms, topics = request
        refused: ProtocolError | None = None
        if acks not in (0, 1, -1):
            refused = ProtocolError(
                f"acks={acks} is not 0, 1 or -1", code=ErrorCode.INVALID_REQUIRED_ACKS
            )
        asked = _ProduceState(version, acks, transactional_id, context, [])
        answers: Answers = []
        for topic, sets in topics:
            problem = refused
            if problem is None and topic in INTERNAL_TOPICS and client_id != ADMIN_CLIENT:
                problem = InvalidTopic(f"{topic} is internal")
            rows: list[ProduceAnswerRow] = []
            answers.append((topic, rows))
            for number, records in sets:
                if rows or len(answers) > 1:
                    context.pace()
                rows.append(self._append(topic, number, records, asked, problem, rows))
        if asked.waiting and acks:
            self._wait(asked, timeout_ms)
        if acks:
            return answers
        for topic, rows in answers:
            for row in rows:
                if row[1]:
                    raise CloseConnection(
                        f"produce with acks=0 failed: {topic}-{row[0]} {ErrorCode(row[1]).name}"
                    )
        return None

    def _append(
        self,
        topic: str,
        number: int,
        data: Records,
        asked: _ProduceState,
        problem: ProtocolError | None,
        rows: list[ProduceAnswerRow],
    ) -> ProduceAnswerRow:
        acks = asked.acks
        try:
            if problem is not None:
                raise problem
            services = self._services
            found = services.replicas.partitions.get((topic, number))
            if found is None or topic in services.view.topics.deleting:
                asked.patience = asked.patience or Patience()
                found = services.partition(topic, number, asked.patience)
            if not isinstance(data, memoryview) or (asked.version >= 3 and not len(data)):
                raise CorruptMessage("no message in the record set")
            if not len(data):
                # An old producer may send an empty set; Kafka answers without error and offset.
                found.leadership()
                return number, 0, -1, -1, -1
            metrics = services.metrics.topics.get(topic) or services.metrics.topic(topic)
            metrics.produces += 1
            leadership = found.leading or found.leadership()
            magics = _MAGIC_2 if asked.version >= 3 else _ANY_MAGIC
            plain = append_plain(leadership, data, magics, acks)
            result = plain or self._append_any(topic, number, data, leadership, asked)
            if not result.duplicate:
                metrics.messages_in += result.count
                metrics.bytes_in += result.size_bytes
            # A plain append has no flush to wait for.
            if (plain is None or acks == -1) and not leadership.safe(result.last_offset, acks):
                appended = Unacknowledged(leadership, result.last_offset)
                asked.waiting.append(_Waiting(topic, data, appended, rows, len(rows)))
        except ZkbrokerError as error:
            return number, self._failed(topic, number, data, asked, error), -1, -1, -1
        return (
            number,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )

    def _append_any(
        self,
        topic: str,
        number: int,
        data: memoryview,
        leadership: Leadership,
        asked: _ProduceState,
    ) -> AppendResult:
        """Append any set by the general way.

        Raises:
            ZkbrokerError: the set is refused, or the disk failed.
        """
        version = asked.version
        transactional = False
        expanded = None
        if is_one_batch(data, without=_NOT_PLAIN_BITS):
            expanded = NOTHING
        else:
            if version >= 3:
                check_produce(data, version)
            transactional = _is_transactional(data)
            if asked.budget is None:
                config = self._services.config
                asked.budget = RequestBudget(
                    config.max_decompressed_bytes, config.max_request_records
                )
        verification = None
        if transactional:
            verification = self._verified(
                asked.transactional_id, (topic, number), leadership, data, asked.context.park
            )
        return leadership.append(
            data,
            acks=asked.acks,
            budget=asked.budget,
            expanded=expanded,
            verification=verification,
        )

    def _verified(
        self,
        transactional_id: str | None,
        key: tuple[str, int],
        leadership: Leadership,
        data: memoryview,
        park: Park,
    ) -> Verification | None:
        """Verify with the coordinator a transaction that a batch would begin.

        Raises:
            ProtocolError: it may not begin here, see `zkbroker.broker.verification`; or the request
                has no transactional id (53).
        """
        if transactional_id is None:
            raise ProtocolError(
                "a transactional batch without a transactional id",
                code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        producer_id, epoch = _PRODUCER.unpack_from(data, PRODUCER_AT)
        if producer_id < 0:
            return None
        verification = leadership.log.begin_verification(producer_id, epoch)
        if verification is not None and self._verify is not None:
            self._verify(transactional_id, producer_id, epoch, (key,), park)
        return verification

    def _wait(self, asked: _ProduceState, timeout_ms: int) -> None:
        """Wait once for all appends of a request, and set their results."""
        # Without a time-out acks=1 waits for the disk alone; acks=-1 fails at once, as in Kafka.
        limited = timeout_ms > 0 or asked.acks == -1
        timeout_s = max(0, timeout_ms) / 1000 if limited else None
        results = wait_for_acks(
            [each.appended for each in asked.waiting],
            asked.acks,
            timeout_s,
            runtime=self._services.runtime,
            park=asked.context.park,
        )
        for each, error in zip(asked.waiting, results, strict=True):
            if error is not None:
                number, _, _, time_ms, log_start = each.rows[each.at]
                code = self._failed(each.topic, number, each.records, asked, error)
                each.rows[each.at] = (number, code, -1, time_ms, log_start)

    def _failed(
        self, topic: str, number: int, data: Records, asked: _ProduceState, error: ZkbrokerError
    ) -> ErrorCode:
        code = partition_error_code(error, ApiKey.PRODUCE, asked.version)
        # Unknown topics get no counts of their own: the number of their names is unbounded.
        here = self._services.replicas.get(topic, number) is not None
        metrics = self._services.metrics.topic(topic if here else OTHER)
        metrics.failed_produces += 1
        if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            metrics.bytes_rejected += len(data) if isinstance(data, memoryview) else 0
        logger.info(
            "produce failed partition=%s-%d code=%s error=%s", topic, number, code.name, error
        )
        return code


def _partition(row: ProduceAnswerRow) -> ProduceResponsePartition:
    number, error, base_offset, time_ms, log_start = row
    return ProduceResponsePartition(
        partition=number,
        error_code=error,
        base_offset=base_offset,
        log_append_time_ms=time_ms,
        log_start_offset=log_start,
    )


def _is_transactional(data: memoryview) -> bool:
    return (
        len(data) >= BATCH_HEADER_BYTES
        and data[MAGIC_AT] == 2
        and bool(data[ATTRIBUTES_V2_LOW_AT] & TRANSACTIONAL_BIT)
        and not data[ATTRIBUTES_V2_LOW_AT] & CONTROL_BIT
    )
