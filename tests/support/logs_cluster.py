"""A cluster in memory for tests of fetchers: brokers that answer Fetch and ListOffsets."""

from collections.abc import Callable
from typing import Any

from tests.support.message_sets import message_set
from zkbroker.client import PartitionInfo
from zkbroker.errors import ErrorCode, LeaderNotAvailable, NetworkError, RequestTimedOut
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.records import iter_entries
from zkbroker.runtime import Runtime

TopicPartition = tuple[str, int]


class LeaderLog:
    """The entries of one partition, from its log start."""

    def __init__(self, leader: int = 0, start: int = 0) -> None:
        self.leader: int | None = leader
        self.epoch = 0
        self.deposed: dict[int, LeaderLog] = {}
        """Broker → its older log, if it still considers itself the leader."""
        self.start = start
        self.end = start
        self.data = b""
        self.error = 0
        self.list_offsets_error = 0
        self.shown_to: int | None = None
        """The high watermark of a new leader, if it is not the log end."""
        self.whole_first_entry = True
        self.stable: int | None = None
        """The last stable offset, if it is not the high watermark."""
        self.aborted: list[tuple[int, int]] = []

    def append(self, records: bytes) -> None:
        self.data += records
        self.end = list(iter_entries(records))[-1].last_offset + 1

    @property
    def high_watermark(self) -> int:
        return self.end if self.shown_to is None else self.shown_to

    @property
    def last_stable(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    def read(self, offset: int, max_bytes: int, *, read_committed: bool = False) -> bytes:
        end = self.last_stable if read_committed else self.high_watermark
        if offset >= end:
            return b""
        data = self.data
        if read_committed:
            below = [each for each in iter_entries(data) if each.base_offset < end]
            data = data[: below[-1].position + below[-1].size] if below else b""
        for entry in iter_entries(data):
            if entry.last_offset >= offset:
                size = max(max_bytes, entry.size) if self.whole_first_entry else max_bytes
                return data[entry.position : entry.position + size]
        return b""


def log_with(*counts: int, leader: int = 0, start: int = 0) -> LeaderLog:
    """Return a log with one message set for each count of messages."""
    log = LeaderLog(leader, start)
    for count in counts:
        log.append(message_set(2, count, base=log.end))
    return log


class LogsCluster:
    """Logs by partition. `fetches` holds the partitions of every answered fetch."""

    def __init__(self, runtime: Runtime, logs: dict[TopicPartition, LeaderLog]) -> None:
        self.runtime = runtime
        self.logs = logs
        self.fetches: list[tuple[int, dict[TopicPartition, int], int]] = []
        self.refreshed = 0
        self.on_refresh: Callable[[], None] = lambda: None
        self.down: set[int] = set()
        self.still: set[int] = set()
        """Brokers that accept requests and do not answer."""
        self.waiting_at_still = 0
        self.watchers: list[Callable[[], None]] = []
        self._known = {key: (log.leader, log.epoch) for key, log in logs.items()}

    def leader(self, topic: str, partition: int) -> int | None:
        return self._known.get((topic, partition), (None, -1))[0]

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        return LeaderNotAvailable(f"{topic}-{partition} has no leader")

    def leader_epoch(self, topic: str, partition: int) -> int:
        return self._known.get((topic, partition), (None, -1))[1]

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        return tuple(
            PartitionInfo(topic, number, *known)
            for (name, number), known in sorted(self._known.items())
            if name == topic
        )

    def refresh(self, topics: list[str] | None = None) -> None:
        self.refreshed += 1
        self.on_refresh()
        before, self._known = (
            self._known,
            {key: (log.leader, log.epoch) for key, log in self.logs.items()},
        )
        if self._known != before:
            for callback in list(self.watchers):
                callback()

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(callback)
        return lambda: self.watchers.remove(callback)

    def move(self, key: TopicPartition, leader: int) -> None:
        """Move the leadership to another broker, in the next epoch, and notify watchers."""
        self.logs[key].leader = leader
        self.logs[key].epoch += 1
        self._known = {key: (log.leader, log.epoch) for key, log in self.logs.items()}
        for callback in self.watchers:
            callback()

    def take_for_leader(self, key: TopicPartition, broker_id: int) -> None:
        """Show another broker as leader of the present epoch until a refresh."""
        self._known[key] = broker_id, self.logs[key].epoch

    def connection(self, broker_id: int, lane: str = "") -> Any:
        if broker_id in self.down:
            raise NetworkError(f"broker {broker_id} is down")
        return _Connection(self, broker_id)


class _Connection:
    def __init__(self, cluster: LogsCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self.closed = False

    def best_version(self, api_key: ApiKey, at_most: int | None = None) -> int:
        return {ApiKey.FETCH: 10, ApiKey.LIST_OFFSETS: 4}[api_key]

    @property
    def stands_still(self) -> bool:
        return self._broker_id in self._cluster.still

    def close(self) -> None:
        self.closed = True

    def send(self, request: Any, version: int | None = None) -> "_Pending":
        return _Pending(self, request, 4 if version is None else version)

    def _log(self, key: TopicPartition, epoch: int) -> "tuple[LeaderLog, int]":
        """Return the log from which a broker answers, and the error code of its answer."""
        log = self._cluster.logs[key]
        if log.leader != self._broker_id:
            if self._broker_id not in log.deposed:
                return log, ErrorCode.NOT_LEADER_FOR_PARTITION
            log = log.deposed[self._broker_id]
        if epoch > log.epoch:
            return log, ErrorCode.UNKNOWN_LEADER_EPOCH
        return log, ErrorCode.FENCED_LEADER_EPOCH if -1 < epoch < log.epoch else 0

    def request(
        self, request: Any, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        if self._broker_id in self._cluster.down:
            raise NetworkError(f"broker {self._broker_id} is down")
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(request)
        assert isinstance(request, FetchRequest)
        waited = 0.0
        self._cluster.waiting_at_still += self._broker_id in self._cluster.still
        while self._broker_id in self._cluster.still:
            if self.closed:
                raise NetworkError("the connection was closed")
            self._cluster.runtime.sleep(0.002)
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
                log, refused = self._log((topic.topic, part.partition), part.current_leader_epoch)
                answer = FetchResponsePartition(
                    partition=part.partition,
                    high_watermark=log.high_watermark,
                    last_stable_offset=log.last_stable,
                    records=b"",
                )
                committed = request.isolation_level == READ_COMMITTED
                if committed:
                    answer.aborted_transactions = [
                        FetchResponseAbortedTransaction(*e) for e in log.aborted
                    ]
                if refused:
                    answer.error_code = refused
                elif log.error:
                    answer.error_code = log.error
                elif not log.start <= part.fetch_offset <= log.end:
                    answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    answer.records = memoryview(
                        log.read(part.fetch_offset, part.max_bytes, read_committed=committed)
                    )
                size += len(answer.records) + (1000 if answer.error_code else 0)
                answers.append(answer)
            response.topics.append(FetchResponseTopic(topic=topic.topic, partitions=answers))
        return response, size

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                log, refused = self._log((topic.topic, part.partition), part.current_leader_epoch)
                refused = refused or log.list_offsets_error
                end = log.last_stable if request.isolation_level == READ_COMMITTED else log.end
                offset = {-1: end, -2: log.start}.get(part.timestamp, -1)
                answers.append(
                    ListOffsetsResponsePartition(
                        partition=part.partition, error_code=refused, offset=offset
                    )
                )
            response.topics.append(ListOffsetsResponseTopic(topic.topic, answers))
        return response


class _Pending:
    def __init__(self, connection: _Connection, request: Any, version: int) -> None:
        self._connection = connection
        self.request = request
        self.version = version

    def wait(self, timeout_s: float) -> bool:
        return not self._connection.stands_still

    def result(self, timeout_s: float | None = None, **how: bool) -> Any:
        if timeout_s == 0 and self._connection.stands_still:
            raise RequestTimedOut("no answer")
        return self._connection.request(self.request, self.version, timeout_s)
