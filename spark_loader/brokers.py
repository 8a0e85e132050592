"""The cluster as driver and workers see it: zkbroker's own client behind two small interfaces.

Invariant: a request that may succeed when repeated is repeated, after asking again who leads the
partition, until `retry_for_ms` has passed; so a broker's restart and a move of the leader cost
time, not the load. Drivers find brokers by ZooKeeper or by addresses; workers get addresses only.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spark_loader.options import ConnectOptions
from spark_loader.positions import EARLIEST, LATEST, TopicPartition
from spark_loader.reader import Fetched, PendingFetch
from zkbroker.discovery import Cluster, StaticSource, ZooKeeperSource
from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    LeaderNotAvailable,
    OffsetOutOfRange,
    ProtocolError,
    UnknownTopicOrPartition,
    protocol_error,
)
from zkbroker.network import BrokerConnection, Pending
from zkbroker.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from zkbroker.records import offset_after
from zkbroker.registry import ZkSession
from zkbroker.registry.groups import commit_offsets, read_offsets
from zkbroker.registry.topics import created_ms

T = TypeVar("T")

_INTERNAL = "__"
_SAMPLE_BYTES = 64 * 1024
_LONGEST_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """The real one: see `Access`."""

    def view(self, connect: ConnectOptions) -> "BrokerView":
        return BrokerView(connect)

    def fetcher(self, connect: ConnectOptions) -> "BrokerFetcher":
        return BrokerFetcher(connect)


class BrokerClient:
    """Requests to the leaders of partitions, repeated where that may help."""

    def __init__(self, connect: ConnectOptions) -> None:
        self.connect = connect
        source = (
            StaticSource(list(connect.bootstrap))
            if connect.bootstrap
            else ZooKeeperSource(connect.zookeeper or "")
        )
        self.cluster = Cluster(
            source,
            runtime="threads",
            client_id=connect.client_id,
            request_timeout_ms=connect.request_timeout_ms,
        )
        self.cluster.start()

    def close(self) -> None:
        self.cluster.close()

    def leader(self, source: TopicPartition) -> BrokerConnection:
        """Return a connection to the partition's leader."""
        found = {each.partition: each.leader for each in self.cluster.partitions(source.topic)}
        if source.partition not in found:
            raise UnknownTopicOrPartition(f"{source} does not exist")
        leader = found[source.partition]
        if leader is None:
            raise LeaderNotAvailable(f"{source} has no leader")
        return self.cluster.connection(leader)

    def repeat(self, topics: Sequence[str], attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, as long as repeating may help."""
        deadline = time.monotonic() + self.connect.retry_for_ms / 1000
        pause_s = self.connect.retry_interval_ms / 1000
        failures = 0
        while True:
            try:
                return attempt()
            except (ProtocolError, ClientError, OSError) as error:
                if isinstance(error, ProtocolError) and not error.code.retriable:
                    raise
                failures += 1
                # A topic that is not there is most likely misspelt, and a damaged log stays so:
                # neither is waited out.
                hopeless = isinstance(error, UnknownTopicOrPartition | CorruptMessage)
                if failures > self.connect.retries and (hopeless or time.monotonic() >= deadline):
                    raise
                time.sleep(pause_s)
                pause_s = min(max(pause_s, 0.01) * 2, _LONGEST_PAUSE_S)
                try:
                    self.cluster.refresh(list(topics))
                except (ProtocolError, ClientError, OSError):
                    # The next attempt says what is wrong.
                    continue


class BrokerFetcher:
    """Fetches for one task; see `Fetcher`."""

    def __init__(self, connect: ConnectOptions) -> None:
        self._client = BrokerClient(connect)

    def send(self, source: TopicPartition, offset: int, max_bytes: int) -> PendingFetch:
        return _PendingFetch(self._client, source, offset, max_bytes)

    def close(self) -> None:
        self._client.close()


class _PendingFetch:
    def __init__(
        self, client: BrokerClient, source: TopicPartition, offset: int, max_bytes: int
    ) -> None:
        self._client = client
        self._source = source
        self._offset = offset
        self._max_bytes = max_bytes
        self._pending: Pending | None = None
        try:
            self._pending = self._send()
        except (ProtocolError, ClientError, OSError):
            # `result` sends again and is the one to complain.
            self._pending = None

    def result(self) -> Fetched:
        return self._client.repeat([self._source.topic], self._attempt)

    def _send(self) -> Pending:
        partition = FetchRequestPartition(
            partition=self._source.partition,
            fetch_offset=self._offset,
            max_bytes=self._max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=self._client.connect.max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            topics=[FetchRequestTopic(topic=self._source.topic, partitions=[partition])],
        )
        return self._client.leader(self._source).send(request)

    def _attempt(self) -> Fetched:
        pending, self._pending = self._pending or self._send(), None
        response = pending.result()
        assert isinstance(response, FetchResponse)
        if response.error_code:
            raise protocol_error(response.error_code, f"fetch of {self._source}")
        answer = response.topics[0].partitions[0]
        if answer.error_code == OffsetOutOfRange.code:
            raise OffsetOutOfRange(
                f"{self._source} offset {self._offset}",
                earliest=list_offsets(self._client, {self._source: EARLIEST})[self._source],
                latest=list_offsets(self._client, {self._source: LATEST})[self._source],
            )
        if answer.error_code:
            raise protocol_error(answer.error_code, f"fetch of {self._source}")
        records = answer.records
        assert isinstance(records, bytes | memoryview | None)
        return Fetched(records if records is not None else b"", answer.high_watermark)


class BrokerView:
    """What the driver asks; see `ClusterView`."""

    def __init__(self, connect: ConnectOptions) -> None:
        self._client = BrokerClient(connect)

    def close(self) -> None:
        self._client.close()

    def bootstrap(self) -> tuple[str, ...]:
        brokers = self._client.cluster.brokers().values()
        found = tuple(f"{each.host}:{each.port}" for each in sorted(brokers))
        if not found:
            raise ClientError("no broker is registered; is the cluster running?")
        return found

    def topics(self) -> list[str]:
        found = self._client.repeat([], self._client.cluster.topics)
        return sorted(topic for topic in found if not topic.startswith(_INTERNAL))

    def partitions(self, topic: str) -> list[int]:
        found = self._client.repeat([topic], lambda: self._client.cluster.partitions(topic))
        return sorted(each.partition for each in found)

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return list_offsets(self._client, dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return list_offsets(self._client, dict.fromkeys(partitions, LATEST))

    def at_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = list_offsets(self._client, dict(times_ms))
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    def record_bytes(self, source: TopicPartition, offset: int) -> float:
        # A guess must not fail: damage is for the reader to name, who knows what to do about it.
        with contextlib.suppress(CorruptMessage, OffsetOutOfRange):
            fetched = _PendingFetch(self._client, source, offset, _SAMPLE_BYTES).result()
            after = offset_after(fetched.records)
            return len(fetched.records) / max(1, (after or 0) - offset)
        return 0.0

    def created_ms(self, topics: Sequence[str]) -> dict[str, int]:
        zookeeper = self._client.connect.zookeeper
        if not zookeeper:
            return {}
        with ZkSession(zookeeper) as session:
            found = {topic: created_ms(session, topic) for topic in topics}
        return {topic: created for topic, created in found.items() if created is not None}

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        zookeeper = self._client.connect.zookeeper
        if zookeeper:
            with ZkSession(zookeeper) as session:
                commit_offsets(
                    session,
                    group,
                    {(tp.topic, tp.partition): (at, None) for tp, at in offsets.items()},
                )
            return
        topics = [
            OffsetCommitRequestTopic(
                topic=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition=tp.partition, offset=offset, metadata="")
                    for tp, offset in sorted(offsets.items())
                    if tp.topic == topic
                ],
            )
            for topic in sorted({tp.topic for tp in offsets})
        ]
        request = OffsetCommitRequest(group_id=group, topics=topics)

        def commit() -> None:
            # Version 0 is the one that stores in ZooKeeper.
            response = self._client.cluster.any_connection().request(request, 0)
            assert isinstance(response, OffsetCommitResponse)
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code:
                        raise protocol_error(each.error_code, f"commit for group {group}")

        self._client.repeat([], commit)

    def group_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        zookeeper = self._client.connect.zookeeper
        found: dict[TopicPartition, int] = {}
        if zookeeper:
            with ZkSession(zookeeper) as session:
                stored = read_offsets(
                    session, group, [(tp.topic, tp.partition) for tp in partitions]
                )
                return {TopicPartition(*tp): offset for tp, (offset, _) in stored.items()}
        topics = [
            OffsetFetchRequestTopic(
                topic=topic,
                partitions=[tp.partition for tp in partitions if tp.topic == topic],
            )
            for topic in sorted({tp.topic for tp in partitions})
        ]
        request = OffsetFetchRequest(group_id=group, topics=topics)

        def fetch() -> OffsetFetchResponse:
            response = self._client.cluster.any_connection().request(request, 0)
            assert isinstance(response, OffsetFetchResponse)
            return response

        for topic in self._client.repeat([], fetch).topics:
            for each in topic.partitions:
                if each.offset >= 0:
                    found[TopicPartition(topic.topic, each.partition)] = each.offset
        return found


def list_offsets(
    client: BrokerClient, timestamps: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Ask the leaders for offsets by time; `EARLIEST` and `LATEST` are times too.

    Returns:
        Offsets; -1 where no record is as new as the time.
    """
    found: dict[TopicPartition, int] = {}

    def attempt() -> None:
        by_leader: dict[BrokerConnection, list[TopicPartition]] = {}
        for source in timestamps:
            if source not in found:
                by_leader.setdefault(client.leader(source), []).append(source)
        pending = [
            connection.send(_list_offsets_request(sources, timestamps))
            for connection, sources in by_leader.items()
        ]
        for each in pending:
            response = each.result()
            assert isinstance(response, ListOffsetsResponse)
            for topic in response.topics:
                for answer in topic.partitions:
                    source = TopicPartition(topic.topic, answer.partition)
                    if answer.error_code:
                        raise protocol_error(answer.error_code, f"offsets of {source}")
                    by_list = answer.offsets[0] if answer.offsets else -1
                    found[source] = by_list if each.version == 0 else answer.offset

    client.repeat(sorted({source.topic for source in timestamps}), attempt)
    return found


def _list_offsets_request(
    sources: Sequence[TopicPartition], timestamps: Mapping[TopicPartition, int]
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsRequestTopic(
                topic=topic,
                partitions=[
                    ListOffsetsRequestPartition(partition=tp.partition, timestamp=timestamps[tp])
                    for tp in sources
                    if tp.topic == topic
                ],
            )
            for topic in sorted({tp.topic for tp in sources})
        ]
    )
