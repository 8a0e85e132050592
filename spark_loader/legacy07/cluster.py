"""A cluster of Kafka 0.7 as driver and workers see it: `SourceCluster` and `Fetcher`.

Invariant: a retriable request is retried until `retry_for_ms` has passed. A partition belongs to
    one broker; while that broker is down the partition is not listed, and no data is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from spark_loader.brokers import commit_in_zookeeper, committed_in_zookeeper, repeat
from spark_loader.errors import LoadError
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.positions import EARLIEST, LATEST, TopicPartition
from spark_loader.reading.reader import Fetched, PendingFetch
from zkbroker.errors import ClientError, CorruptMessage, OffsetOutOfRange, UnknownTopicOrPartition
from zkbroker.legacy07 import Cluster07, SimpleConsumer07
from zkbroker.records.legacy07 import whole_bytes
from zkbroker.types import Partition07

T = TypeVar("T")

_LARGEST_BROKER = 0x7FFF
_MANY = 1_000_000


class BrokerView07:
    """A driver's view of a 0.7 cluster; see `SourceCluster`."""

    def __init__(self, connect: ConnectOptions) -> None:
        self._connect = connect
        self._cluster = Cluster07(
            connect.zookeeper or "",
            security=connect.security.zookeeper,
            socket_timeout_ms=connect.request_timeout_ms,
        ).start()

    def close(self) -> None:
        self._cluster.close()

    def bootstrap(self) -> tuple[str, ...]:
        brokers = self._cluster.brokers()
        if not brokers:
            raise ClientError("no broker of the 0.7 cluster is registered; is it running?")
        return tuple(f"{each.id}:{each.host}:{each.port}" for _, each in sorted(brokers.items()))

    def topics(self) -> list[str]:
        return self._repeat(self._cluster.topics)

    def partitions(self, topic: str) -> list[int]:
        found = self._repeat(lambda: self._cluster.numbers(topic))
        if not found and topic not in self.topics():
            raise UnknownTopicOrPartition(f"topic {topic} does not exist")
        for each in found:
            if each.broker > _LARGEST_BROKER:
                raise LoadError(
                    f"broker id {each.broker} of partition {each} is above {_LARGEST_BROKER}: the "
                    "column partition cannot hold it"
                )
        return list(found)

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._offsets(tp, EARLIEST)[0] for tp in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._offsets(tp, LATEST)[0] for tp in partitions}

    def log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self.latest(partitions)

    def at_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return a place before which every message is older; 0.7 looks up whole files."""
        found: dict[TopicPartition, int | None] = {}
        for tp, time_ms in times_ms.items():
            older = self._offsets(tp, time_ms)
            found[tp] = older[0] if older else self._offsets(tp, EARLIEST)[0]
        return found

    def last_cut(self, source: TopicPartition, start: int, wanted: int) -> int:
        files = [at for at in self._offsets(source, LATEST, _MANY) if start < at <= wanted]
        position = max(files, default=start)
        while position < wanted:
            end = self._walk(source, position, wanted)
            if end == position:
                break
            position = end
        if position > start:
            return position
        # The first entry is larger than that, and is taken whole.
        return self._walk(source, start, self._offsets(source, LATEST)[0], entries=1)

    def _walk(self, source: TopicPartition, position: int, wanted: int, entries: int = 0) -> int:
        """Return the end of the last entry up to `wanted` that one fetch from `position` shows."""
        size = self._connect.fetch_bytes

        def fetch() -> memoryview:
            return self._consumer(source).fetch_raw(
                source.topic, _partition(source).number, position, size
            )

        data = self._repeat(fetch)
        if not entries:
            return position + _whole(data[: wanted - position])
        while not (end := _whole(data)) and len(data) == size:
            size *= 2
            data = self._repeat(fetch)
        return position + (min(end, _first(data)) if end else 0)

    def cuts(self, source: TopicPartition) -> list[int] | None:
        return sorted(self._offsets(source, LATEST, _MANY))

    def record_bytes(self, source: TopicPartition, offset: int) -> float:
        return 1.0

    def created_ms(self, topics: Sequence[str]) -> dict[str, int]:
        """Return nothing: 0.7 does not record when a topic was created."""
        return {}

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        commit_in_zookeeper(self._connect, group, offsets)

    def group_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return committed_in_zookeeper(self._connect, group, partitions)

    def _offsets(self, source: TopicPartition, time_ms: int, count: int = 1) -> list[int]:
        """Return places in a log, newest first; [0] where there is no log yet."""

        def ask() -> list[int]:
            consumer = self._consumer(source)
            return consumer.offsets(source.topic, _partition(source).number, time_ms, count)

        found = self._repeat(ask)
        return found if found or time_ms >= 0 else [0]

    def _consumer(self, source: TopicPartition) -> SimpleConsumer07:
        return self._cluster.consumer(_partition(source).broker)

    def _repeat(self, attempt: Callable[[], T]) -> T:
        return repeat(self._connect, attempt)


class Fetcher07:
    """Fetches of one task from 0.7 brokers; see `Fetcher`."""

    def __init__(self, connect: ConnectOptions) -> None:
        self._connect = connect
        self._addresses: dict[int, tuple[str, int]] = {}
        for text in connect.bootstrap:
            number, host, port = text.split(":")
            self._addresses[int(number)] = host, int(port)
        self._consumers: dict[int, SimpleConsumer07] = {}

    def send(self, source: TopicPartition, offset: int, max_bytes: int) -> PendingFetch:
        # Sent when its result is asked for: a 0.7 broker answers at once.
        return partial(self.fetch, source, offset, max_bytes)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def fetch(self, source: TopicPartition, offset: int, max_bytes: int) -> Fetched:
        """Fetch bytes from a position on.

        Raises:
            OffsetOutOfRange: it is not in the log; with its range.
            NetworkError: the broker does not answer.
        """
        consumer = self._consumer(source)
        number = _partition(source).number

        def attempt() -> Fetched:
            try:
                data = consumer.fetch_raw(source.topic, number, offset, max_bytes)
            except OffsetOutOfRange as error:
                ends = [consumer.offsets(source.topic, number, at)[0] for at in (EARLIEST, LATEST)]
                raise OffsetOutOfRange(str(error), earliest=ends[0], latest=ends[1]) from None
            if data:
                return Fetched(data, offset + len(data))
            end = consumer.offsets(source.topic, number, LATEST)
            return Fetched(b"", end[0] if end else 0)

        return repeat(self._connect, attempt)

    def _consumer(self, source: TopicPartition) -> SimpleConsumer07:
        broker = _partition(source).broker
        if broker not in self._addresses:
            raise UnknownTopicOrPartition(
                f"{source}: its broker was down when the task was planned"
            )
        if broker not in self._consumers:
            self._consumers[broker] = SimpleConsumer07(
                *self._addresses[broker], socket_timeout_ms=self._connect.request_timeout_ms
            )
        return self._consumers[broker]


def _whole(data: memoryview) -> int:
    try:
        return whole_bytes(data)
    except CorruptMessage as damage:
        # The reader reports damage.
        return damage.position or 0


def _first(data: memoryview) -> int:
    return 4 + int.from_bytes(data[:4], "big")


def _partition(source: TopicPartition) -> Partition07:
    assert isinstance(source.partition, Partition07), source
    return source.partition
