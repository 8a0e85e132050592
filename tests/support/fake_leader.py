"""A leader without a network: real partitions and fetch sessions, with faults on demand."""

import os
from collections.abc import Callable
from typing import Any

from tests.support.replicas import PlainRuntime, ReplicaClock
from zkbroker.broker.errors import error_code
from zkbroker.broker.fetch_sessions import FINAL_EPOCH, FetchSessions
from zkbroker.errors import NetworkError, ProtocolError, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.messages import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from zkbroker.replica.partition import Partition
from zkbroker.replica.reads import ReadEnd


class StillRuntime(PlainRuntime):
    """Starts no task: a test of a loop runs the loop's steps itself."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        super().__init__(clock)
        self.paces = 0

    def spawn(self, function: Any, *args: Any, name: str) -> Any:
        return self

    def join(self, timeout_s: float | None = None) -> bool:
        return True

    def sleep(self, seconds: float) -> None:
        self.paces += 1


class FakeLeader:
    """Answers Fetch, ListOffsets and OffsetForLeaderEpoch as a broker would."""

    def __init__(self, slots: int = 10) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.sessions = FetchSessions(slots, 10**6, PlainRuntime())
        self.clock = ReplicaClock()
        self.requests: list[tuple[Any, int]] = []
        self.errors: dict[TopicPartition, int] = {}
        self.fail_next: list[Exception] = []
        self.before_answer: Any = lambda request: None
        self.change_answer: Any = lambda answer: None
        self.connections: list[tuple[int, int]] = []
        self.closed = 0

    def connect(self, broker_id: int, number: int) -> "FakeLeader":
        self.connections.append((broker_id, number))
        return self

    def close(self) -> None:
        self.closed += 1

    def send(self, request: Any, version: int) -> Any:
        # Encoded and decoded, so that only the fields of this version arrive.
        header = RequestHeader(request.api_key, version, 1, "broker-2-fetcher-0")
        frame = b"".join(bytes(part) for part in encode_request(header, request))
        _, request = decode_request(memoryview(frame)[4:])
        self.requests.append((request, version))
        if self.fail_next:
            raise self.fail_next.pop(0)
        answer = {
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epochs,
        }[request.api_key](request, version)
        self.before_answer(request)
        self.change_answer(answer)
        frame = b"".join(bytes(part) for part in encode_response(1, answer, version))
        return decode_response(request.api_key, version, memoryview(frame)[4:])[1]

    def of(self, api_key: ApiKey) -> list[Any]:
        return [each for each, _ in self.requests if each.api_key == api_key]

    def _partition(self, topic: str, number: int) -> Partition:
        key = TopicPartition(topic, number)
        if self.errors.get(key):
            raise ProtocolError("an error of the test", code=self.errors[key])
        return self.partitions[key]

    def _fetch(self, request: Any, version: int) -> FetchResponse:
        session = None
        try:
            if version >= 7:
                session = self.sessions.session(request)
        except ProtocolError as error:
            return FetchResponse(error_code=error.code)
        asked = request.topics if session is None else session.topics()
        left = request.max_bytes if version >= 3 else 1 << 30
        topics = []
        for topic in asked:
            answers = []
            for each in topic.partitions:
                whole = version >= 3 and left == request.max_bytes
                answer = self._read(topic.topic, each, left, request.replica_id, whole=whole)
                left -= len(answer.records)
                answers.append(answer)
            topics.append(FetchResponseTopic(topic.topic, answers))
        if session is None:
            return FetchResponse(topics=topics)
        incremental = request.session_epoch not in (0, FINAL_EPOCH)
        return FetchResponse(
            session_id=session.id, topics=session.answered(topics, incremental=incremental)
        )

    def _read(self, topic: str, each: Any, left: int, replica_id: int, *, whole: bool) -> Any:
        try:
            partition = self._partition(topic, each.partition)
            end = partition.log_end_offset
            leadership = partition.leadership(each.current_leader_epoch)
            read = leadership.read(
                each.fetch_offset,
                max(0, min(left, each.max_bytes)),
                reader=ReadEnd.LOG_END,
                min_one_entry=whole,
            )
            data = b""
            if read.found.slice is not None:
                part = read.found.slice
                data = os.pread(part.fd, part.size, part.position)
                part.close()
            leadership.record_follower_fetch(
                replica_id,
                each.fetch_offset,
                each.log_start_offset,
                end,
                each.current_leader_epoch,
            )
        except ZkbrokerError as error:
            return FetchResponsePartition(each.partition, error_code(error), records=b"")
        return FetchResponsePartition(
            partition=each.partition,
            error_code=0,
            high_watermark=read.high_watermark,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            records=data,
        )

    def _list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for each in topic.partitions:
                try:
                    partition = self._partition(topic.topic, each.partition)
                    partition.leadership(each.current_leader_epoch)
                except ZkbrokerError as error:
                    answers.append(ListOffsetsResponsePartition(each.partition, error_code(error)))
                    continue
                latest = each.timestamp == -1
                offset = partition.log_end_offset if latest else partition.log_start_offset
                answers.append(
                    ListOffsetsResponsePartition(
                        partition=each.partition, error_code=0, offsets=[offset]
                    )
                    if version == 0
                    else ListOffsetsResponsePartition(
                        partition=each.partition,
                        error_code=0,
                        offsets=[],
                        timestamp=-1,
                        offset=offset,
                    )
                )
            topics.append(ListOffsetsResponseTopic(topic.topic, answers))
        return ListOffsetsResponse(topics=topics)

    def _epochs(self, request: Any, version: int) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for each in topic.partitions:
                try:
                    partition = self._partition(topic.topic, each.partition)
                    leadership = partition.leadership(each.current_leader_epoch)
                    epoch, end = leadership.log.end_offset_for_epoch(each.leader_epoch)
                except ZkbrokerError as error:
                    answers.append(
                        OffsetForLeaderEpochResponsePartition(error_code(error), each.partition)
                    )
                    continue
                answers.append(
                    OffsetForLeaderEpochResponsePartition(
                        error_code=0, partition=each.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            topics.append(OffsetForLeaderEpochResponseTopic(topic.topic, answers))
        return OffsetForLeaderEpochResponse(topics=topics)


def lost() -> NetworkError:
    return NetworkError("the connection was lost")
