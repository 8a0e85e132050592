"""ListOffsets: which offset a point in time has."""

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.handlers.fetch import reader_of
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from zkbroker.protocol.messages.fetch import COMPARES_REPLICAS
from zkbroker.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequestPartition,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import Role

CONSUMER = -1
_ONE_ANSWER_SINCE = 1
_NOT_AVAILABLE_SINCE = 5


class ListOffsetsHandler:
    """Handles ListOffsets: base offsets of segments in v0, one offset and timestamp from v1 on.

    For a consumer the log ends at the high watermark, for a reader of committed messages at the
    last stable offset, and for a follower at the log end.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        any_replica = request.replica_id == COMPARES_REPLICAS
        if request.replica_id != CONSUMER:
            reader = ReadEnd.LOG_END
        else:
            reader = reader_of(request.isolation_level)
        patience = Patience()
        topics: dict[str, dict[int, ListOffsetsResponsePartition]] = {}
        one_answer = context.api_version >= _ONE_ANSWER_SINCE
        for topic in context.paced(request.topics):
            answers = topics.setdefault(topic.topic, {})
            for partition in context.paced(topic.partitions):
                if partition.partition not in answers:
                    answers[partition.partition] = self._look_up(
                        topic.topic, partition, context.api_version, reader, patience, any_replica
                    )
                elif one_answer:
                    # The partition is named twice: it is unclear which request counts.
                    answers[partition.partition] = ListOffsetsResponsePartition(
                        partition=partition.partition, error_code=ErrorCode.INVALID_REQUEST
                    )
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(name, list(answers.values()))
                for name, answers in topics.items()
            ]
        )

    def _look_up(
        self,
        topic: str,
        asked: ListOffsetsRequestPartition,
        version: int,
        reader: ReadEnd,
        patience: Patience,
        any_replica: bool,
    ) -> ListOffsetsResponsePartition:
        number = asked.partition
        timestamp = asked.timestamp
        try:
            partition = self._services.partition(topic, number, patience)
            current = asked.current_leader_epoch
            role = partition.readable(current) if any_replica else partition.leadership(current)
            log, epoch = role.log, role.leader_epoch
            if version == 0:
                count = max(0, asked.max_num_offsets)
                offsets = log.segment_offsets_before(timestamp, count, role.end_for(reader))
                return ListOffsetsResponsePartition(partition=number, offsets=offsets)
            answer = ListOffsetsResponsePartition(partition=number, leader_epoch=epoch)
            if timestamp == EARLIEST_TIMESTAMP:
                answer.offset = log.log_start_offset
            elif timestamp == LATEST_TIMESTAMP:
                self._require_known_end(role, version, reader)
                answer.offset = role.end_for(reader)
            elif (found := log.offset_for_timestamp(timestamp, role.end_for(reader))) is not None:
                answer.timestamp, answer.offset = found.timestamp, found.offset
            else:
                self._require_known_end(role, version, reader)
                return ListOffsetsResponsePartition(partition=number)
            return answer
        except ZkbrokerError as error:
            return ListOffsetsResponsePartition(partition=number, error_code=error_code(error))

    @staticmethod
    def _require_known_end(role: Role, version: int, reader: ReadEnd) -> None:
        """Refuse to tell a consumer an end that may lie before an earlier answer.

        A new leader may not know its predecessor's high watermark yet (KIP-207).

        Raises:
            ProtocolError: OFFSET_NOT_AVAILABLE (78), to older readers LEADER_NOT_AVAILABLE (5).
        """
        if (
            reader is not ReadEnd.LOG_END
            and isinstance(role, Leadership)
            and role.high_watermark < role.epoch_start
        ):
            code = (
                ErrorCode.OFFSET_NOT_AVAILABLE
                if version >= _NOT_AVAILABLE_SINCE
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            raise ProtocolError(f"the high watermark of {role.key} is not known yet", code=code)
