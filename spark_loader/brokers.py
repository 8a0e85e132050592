"""The cluster as driver and workers see it: zkbroker's client behind two small interfaces.

Invariant: a retriable request is retried, after a new look-up of the partition's leader, until
`retry_for_ms` has passed; so a broker's restart or a move of the leader delays a load and does not
fail it. Drivers find brokers by ZooKeeper or by addresses; workers get addresses only.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import LoaderGeneration
from spark_loader.reading.positions import EARLIEST, LATEST, TopicPartition
from spark_loader.reading.reader import Fetched, Fetcher, PendingFetch, RangeReader
from spark_loader.reading.resolve import SourceCluster
from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.client.fetch import Wanted, answer_of_one, send_fetch
from zkbroker.client.group_offsets import commit_offsets, fetch_offsets
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    LeaderNotAvailable,
    OffsetOutOfRange,
    ProtocolError,
    RegistryError,
    UnknownTopicOrPartition,
)
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.records import iter_entries, offset_after
from zkbroker.registry import group_offsets
from zkbroker.registry.topics import created_ms
from zkbroker.zookeeper import ZkSession

T = TypeVar("T")

_INTERNAL = "__"
_SAMPLE_BYTES = 64 * 1024
_LONGEST_PAUSE_S = 1.0


class BrokerClient:
    """Requests to the leaders of partitions, with retries."""

    def __init__(self, connect: ConnectOptions) -> None:
        self.connect = connect
        source = (
            StaticSource(list(connect.bootstrap))
            if connect.bootstrap
            else ZooKeeperSource(connect.zookeeper or "", security=connect.security.zookeeper)
        )
        self.cluster = Cluster(
            source,
            runtime="threads",
            client_id=connect.client_id,
            request_timeout_ms=connect.request_timeout_ms,
            security=connect.security,
        )
        self.cluster.start()

    def close(self) -> None:
        self.cluster.close()

    def leader(self, source: TopicPartition) -> tuple[BrokerConnection, int]:
        """Return a connection to the partition's leader, and the leader's epoch."""
        found = {each.partition: each for each in self.cluster.partitions(source.topic)}
        if source.partition not in found:
            raise UnknownTopicOrPartition(f"{source} does not exist")
        leader = found[source.partition].leader
        if leader is None:
            raise self.cluster.no_leader(*source)
        return self.cluster.connection(leader), found[source.partition].leader_epoch

    def offsets(
        self, times_ms: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int | None]:
        """Ask the leaders for offsets by time; `EARLIEST` and `LATEST` are times too.

        Args:
            times_ms: time for each partition.
            read_committed: whether a log ends where its first open transaction begins.
        """
        return resolve_offsets(
            self.cluster,
            times_ms,
            read_committed=read_committed,
            timeout_s=self.connect.retry_for_ms / 1000,
        )

    def ends(
        self, partitions: Sequence[TopicPartition], end: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the first offset (`EARLIEST`) or the one after the last (`LATEST`) of each."""
        found = self.offsets(dict.fromkeys(partitions, end), read_committed=read_committed)
        return {source: offset or 0 for source, offset in found.items()}

    def settings(self, max_bytes: int) -> FetchSettings:
        """Return the settings of fetches of so many bytes."""
        connect = self.connect
        return FetchSettings(
            partition_bytes=max_bytes,
            response_bytes=max_bytes,
            max_wait_ms=connect.max_wait_ms,
            timeout_ms=connect.request_timeout_ms,
            read_committed=connect.read_committed,
        )

    def repeat(self, topics: Sequence[str], attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, as long as repeating may help."""
        return repeat(self.connect, attempt, lambda: self.cluster.refresh(list(topics)))


def repeat(
    connect: ConnectOptions, attempt: Callable[[], T], refresh: Callable[[], object] | None = None
) -> T:
    """Call `attempt` until it succeeds, as long as repeating may help.

    Args:
        connect: how long and how often.
        attempt: what is to be done.
        refresh: called before each repetition; its errors are ignored.
    """
    deadline = time.monotonic() + connect.retry_for_ms / 1000
    pause_s = connect.retry_interval_ms / 1000
    failures = 0
    while True:
        try:
            return attempt()
        except (ProtocolError, ClientError, RegistryError, OSError) as error:
            if isinstance(error, ProtocolError) and not error.code.retriable:
                raise
            failures += 1
            # A missing topic is most likely misspelt, and a damaged log stays damaged: no use
            # waiting.
            hopeless = isinstance(error, UnknownTopicOrPartition | CorruptMessage)
            if failures > connect.retries and (hopeless or time.monotonic() >= deadline):
                raise
            time.sleep(pause_s)
            pause_s = min(max(pause_s, 0.01) * 2, _LONGEST_PAUSE_S)
            if refresh is not None:
                # If this fails, the next attempt raises the reason.
                with contextlib.suppress(ProtocolError, ClientError, OSError):
                    refresh()


def commit_in_zookeeper(
    connect: ConnectOptions, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Write `/consumers/[group]/offsets`."""
    with ZkSession(connect.zookeeper or "", security=connect.security.zookeeper) as session:
        group_offsets.commit_offsets(
            session, group, {(tp.topic, tp.partition): (at, None) for tp, at in offsets.items()}
        )


def committed_in_zookeeper(
    connect: ConnectOptions, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Read `/consumers/[group]/offsets`; partitions without one are left out."""
    keys = [(tp.topic, tp.partition) for tp in partitions]
    with ZkSession(connect.zookeeper or "", security=connect.security.zookeeper) as session:
        stored = group_offsets.read_offsets(session, group, keys)
    return {TopicPartition(*tp): offset for tp, (offset, _) in stored.items()}


class RangeFetcher:
    """Fetches for one task; see `Fetcher`."""

    def __init__(self, connect: ConnectOptions) -> None:
        self._client = BrokerClient(connect)

    def send(self, source: TopicPartition, offset: int, max_bytes: int) -> PendingFetch:
        return _PendingFetch(self._client, source, offset, max_bytes).result

    def close(self) -> None:
        self._client.close()


class _PendingFetch:
    def __init__(
        self, client: BrokerClient, source: TopicPartition, offset: int, max_bytes: int
    ) -> None:
        self._client = client
        self._source = source
        self._offset = offset
        self._settings = client.settings(max_bytes)
        self._asked_again = False
        self._pending: Pending | None = None
        try:
            self._pending = self._send()
        except (ProtocolError, ClientError, OSError):
            # `result` sends again, and raises if that fails.
            self._pending = None

    def result(self) -> Fetched:
        return self._client.repeat([self._source.topic], self._attempt)

    def _send(self, *, read_committed: bool | None = None) -> Pending:
        settings = self._settings
        if read_committed is not None:
            settings = replace(settings, read_committed=read_committed)
        connection, epoch = self._client.leader(self._source)
        want = Wanted(self._offset, settings.partition_bytes, epoch)
        return send_fetch(connection, {self._source: want}, settings)

    def _attempt(self) -> Fetched:
        pending, self._pending = self._pending or self._send(), None
        try:
            answer = answer_of_one(pending, self._settings)
        except OffsetOutOfRange:
            raise self._out_of_range() from None
        records = answer.records
        assert isinstance(records, bytes | memoryview | None)
        if not records and answer.high_watermark <= self._offset:
            # The high watermark of a new leader lags until its followers have fetched.
            end = self._client.ends([self._source], LATEST)[self._source]
            if end > self._offset:
                raise LeaderNotAvailable(
                    f"{self._source}: the leader's high watermark is still {answer.high_watermark}"
                )
        if not self._client.connect.read_committed:
            return Fetched(records if records is not None else b"", answer.high_watermark)
        if not records and answer.last_stable_offset > self._offset:
            records = self._beyond(answer.last_stable_offset)
        aborted = [
            (each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
        ]
        return Fetched(
            records if records is not None else b"",
            answer.high_watermark,
            aborted,
            # Brokers without transactions answer -1.
            answer.last_stable_offset if answer.last_stable_offset >= 0 else None,
        )

    def _beyond(self, stable: int) -> bytes | memoryview:
        """Return the first entry at or above the last stable offset, once none is left below it.

        A reader of committed records gets an empty answer where compaction removed the records up
        to that offset. This confirms that it did; the entry's records are not used.

        Raises:
            LeaderNotAvailable: the log has an entry below it, so the empty answer was wrong.
        """
        answer = answer_of_one(self._send(read_committed=False), self._settings)
        records = answer.records if isinstance(answer.records, bytes | memoryview) else b""
        first = next(iter_entries(records), None)
        if first is None or first.base_offset < stable:
            raise LeaderNotAvailable(
                f"{self._source}: the leader answered nothing at {self._offset}"
            )
        return records

    def _out_of_range(self) -> ProtocolError:
        """Return the error that OFFSET_OUT_OF_RANGE in an answer stands for.

        The code is trusted only after a new look-up of the leader, and if the log's range agrees.
        """
        where = f"{self._source} offset {self._offset}"
        if not self._asked_again:
            self._asked_again = True
            return LeaderNotAvailable(
                f"{where}: not in the log of a broker that may no longer be the leader"
            )
        earliest = self._client.ends([self._source], EARLIEST)[self._source]
        latest = self._client.ends([self._source], LATEST)[self._source]
        if earliest <= self._offset <= latest:
            return LeaderNotAvailable(
                f"{where}: in the leader's log, but the leader did not find it"
            )
        return OffsetOutOfRange(where, earliest=earliest, latest=latest)


class BrokerView:
    """What the driver asks; see `SourceCluster`."""

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
        return self._client.ends(partitions, EARLIEST)

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        committed = self._client.connect.read_committed
        return self._client.ends(partitions, LATEST, read_committed=committed)

    def log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._client.ends(partitions, LATEST)

    def at_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._client.offsets(times_ms, read_committed=self._client.connect.read_committed)

    def last_cut(self, source: TopicPartition, start: int, wanted: int) -> int:
        return wanted

    def cuts(self, source: TopicPartition) -> list[int] | None:
        return None

    def record_bytes(self, source: TopicPartition, offset: int) -> float:
        # An estimate must not fail: the reader reports damage, and handles it.
        with contextlib.suppress(CorruptMessage, OffsetOutOfRange):
            fetched = _PendingFetch(self._client, source, offset, _SAMPLE_BYTES).result()
            after = offset_after(fetched.records)
            return len(fetched.records) / max(1, (after or 0) - offset)
        return 0.0

    def created_ms(self, topics: Sequence[str]) -> dict[str, int]:
        zookeeper = self._client.connect.zookeeper
        if not zookeeper:
            return {}
        security = self._client.connect.security.zookeeper
        with ZkSession(zookeeper, security=security) as session:
            found = {topic: created_ms(session, topic) for topic in topics}
        return {topic: created for topic, created in found.items() if created is not None}

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        zookeeper = self._client.connect.zookeeper
        if zookeeper:
            commit_in_zookeeper(self._client.connect, group, offsets)
            return
        cluster = self._client.cluster
        self._client.repeat(
            [], lambda: cluster.ask_any(lambda c, _: commit_offsets(c, group, offsets))
        )

    def group_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        zookeeper = self._client.connect.zookeeper
        if zookeeper:
            return committed_in_zookeeper(self._client.connect, group, partitions)
        cluster = self._client.cluster
        found = self._client.repeat(
            [], lambda: cluster.ask_any(lambda c, _: fetch_offsets(c, group, partitions))
        )
        return {TopicPartition(*tp): offset for tp, offset in found.items() if offset is not None}


class Kafka:
    """Kafka 0.8 and later; see `LoaderGeneration`."""

    counts_records = True
    partitions_return = False

    def check(self, *, zookeeper: str, bootstrap: Sequence[str], read_committed: bool) -> None:
        """Accept every combination."""

    def view(self, connect: ConnectOptions) -> SourceCluster:
        return BrokerView(connect)

    def fetcher(self, connect: ConnectOptions) -> Fetcher:
        return RangeFetcher(connect)

    def reader(self, fetcher: Fetcher, *, positions: bool = False, **options: Any) -> RangeReader:
        # The offset alone says where a row is from.
        return RangeReader(fetcher, **options)

    def has(self, partition: int) -> bool:
        return True


GENERATION: LoaderGeneration = Kafka()
