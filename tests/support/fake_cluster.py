"""A cluster in memory for tests of fetchers: brokers that answer Fetch and ListOffsets."""

from collections.abc import Callable
from typing import Any

from zkbroker.errors import ErrorCode, NetworkError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.records import iter_entries
from zkbroker.runtime import Runtime

TopicPartition = tuple[str, int]


class FakeLog:
    """One partition: entries, and where they begin."""

    def __init__(self, leader: int = 0, start: int = 0) -> None:
        self.leader: int | None = leader
        self.start = start
        self.end = start
        self.data = b""
        self.error = 0
        self.whole_first_entry = True

    def append(self, records: bytes) -> None:
        self.data += records
        self.end = list(iter_entries(records))[-1].last_offset + 1

    def read(self, offset: int, max_bytes: int) -> bytes:
        for entry in iter_entries(self.data):
            if entry.last_offset >= offset:
                size = max(max_bytes, entry.size) if self.whole_first_entry else max_bytes
                return self.data[entry.position : entry.position + size]
        return b""


class FakeCluster:
    """Logs by partition. `fetches` holds the partitions of every fetch that was answered."""

    def __init__(self, runtime: Runtime, logs: dict[TopicPartition, FakeLog]) -> None:
        self.runtime = runtime
        self.logs = logs
        self.fetches: list[tuple[int, dict[TopicPartition, int], int]] = []
        self.refreshed = 0
        self.on_refresh: Callable[[], None] = lambda: None
        self.down: set[int] = set()
        self._known = {key: log.leader for key, log in logs.items()}

    def leader(self, topic: str, partition: int) -> int | None:
        return self._known.get((topic, partition))

    def refresh(self, topics: list[str] | None = None) -> None:
        self.refreshed += 1
        self.on_refresh()
        self._known = {key: log.leader for key, log in self.logs.items()}

    def connection(self, broker_id: int, lane: str = "") -> Any:
        if broker_id in self.down:
            raise NetworkError(f"broker {broker_id} is down")
        return _Connection(self, broker_id)


class _Connection:
    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self.closed = False

    def best_version(self, api_key: ApiKey, at_most: int | None = None) -> int:
        return {ApiKey.FETCH: 10, ApiKey.LIST_OFFSETS: 4}[api_key]

    def close(self) -> None:
        self.closed = True

    def request(
        self, request: Any, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        if self._broker_id in self._cluster.down:
            raise NetworkError(f"broker {self._broker_id} is down")
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(request)
        assert isinstance(request, FetchRequest)
        waited = 0.0
        while True:
            response, size = self._fetch(request)
            if size >= request.min_bytes or waited * 1000 >= request.max_wait_ms or self.closed:
                asked = {
                    (topic.topic, part.partition): part.fetch_offset
                    for topic in request.topics
                    for part in topic.partitions
                }
                self._cluster.fetches.append((self._broker_id, asked, request.max_wait_ms))
                return response
            self._cluster.runtime.sleep(0.002)
            waited += 0.002

    def _fetch(self, request: FetchRequest) -> tuple[FetchResponse, int]:
        response = FetchResponse()
        size = 0
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                log = self._cluster.logs[topic.topic, part.partition]
                answer = FetchResponsePartition(
                    partition=part.partition, high_watermark=log.end, records=b""
                )
                if log.leader != self._broker_id:
                    answer.error_code = ErrorCode.NOT_LEADER_FOR_PARTITION
                elif log.error:
                    answer.error_code = log.error
                elif not log.start <= part.fetch_offset <= log.end:
                    answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    answer.records = memoryview(log.read(part.fetch_offset, part.max_bytes))
                size += len(answer.records) + (1000 if answer.error_code else 0)
                answers.append(answer)
            response.topics.append(FetchResponseTopic(topic=topic.topic, partitions=answers))
        return response, size

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                log = self._cluster.logs[topic.topic, part.partition]
                offset = {-1: log.end, -2: log.start}.get(part.timestamp, -1)
                answers.append(
                    ListOffsetsResponsePartition(partition=part.partition, offset=offset)
                )
            response.topics.append(ListOffsetsResponseTopic(topic.topic, answers))
        return response
