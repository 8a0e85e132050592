"""ListOffsets: which offset a point in time has."""

from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import ZkbrokerError
from zkbroker.network.server import Session
from zkbroker.protocol import RequestHeader
from zkbroker.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from zkbroker.protocol.messages.fetch import READ_COMMITTED
from zkbroker.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequestPartition,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)


class ListOffsetsHandler:
    """Handles ListOffsets: base offsets of segments in v0, one offset and timestamp from v1 on.

    To a reader of committed messages the log ends at the last stable offset.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(
        self, request: ListOffsetsRequest, header: RequestHeader, session: Session
    ) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    topic.topic,
                    [
                        self._look_up(
                            topic.topic,
                            partition,
                            header.api_version,
                            committed=request.isolation_level == READ_COMMITTED,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _look_up(
        self,
        topic: str,
        partition: ListOffsetsRequestPartition,
        version: int,
        *,
        committed: bool,
    ) -> ListOffsetsResponsePartition:
        number = partition.partition
        timestamp = partition.timestamp
        try:
            hosted = self._services.hosted(topic, number, partition.current_leader_epoch)
            log = hosted.log
            if version == 0:
                offsets = log.segment_offsets_before(timestamp, max(0, partition.max_num_offsets))
                return ListOffsetsResponsePartition(number, 0, offsets)
            epoch = hosted.leader_epoch
            end = log.last_stable_offset if committed else log.high_watermark
            if timestamp == LATEST_TIMESTAMP:
                return ListOffsetsResponsePartition(number, 0, [], -1, end, epoch)
            if timestamp == EARLIEST_TIMESTAMP:
                return ListOffsetsResponsePartition(number, 0, [], -1, log.log_start_offset, epoch)
            found = log.offset_for_timestamp(timestamp)
            if found is None or found.offset >= end:
                return ListOffsetsResponsePartition(number, 0, [], -1, -1, -1)
            return ListOffsetsResponsePartition(number, 0, [], found.timestamp, found.offset, epoch)
        except ZkbrokerError as error:
            return ListOffsetsResponsePartition(number, error_code(error))
