"""One fetcher: the partitions that one broker leads, in one request after the other.

    wanted partitions --one Fetch--> broker --answer--> a chunk for each partition with data

Invariants:
- A fetcher never waits for a stream: a partition without room is left out until there is room.
  While some are left out, the others are asked without waiting at the broker, so that neither a
  quiet partition holds up a busy one nor the other way round.
- It fetches under the partition's current `Progress`; an answer that comes after a seek, a reset
  or the loss of the partition is dropped.
- A partition that another broker leads now, or whose broker is gone, is given back.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from zkbroker.config.consumer import FAIL, SMALLEST, ConsumerConfig
from zkbroker.consumer.fetching import Wanted, check_size, committed, doubled, fetch_request
from zkbroker.consumer.lookup import EARLIEST_TIME, LATEST_TIME, list_offsets, valid_range
from zkbroker.consumer.partition import Chunk, ConsumedPartition, Progress, TopicPartition
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    OffsetOutOfRange,
    ProtocolError,
    RegistryError,
    protocol_error,
)
from zkbroker.measures import Histogram
from zkbroker.network import BrokerConnection
from zkbroker.protocol.messages.fetch import AbortedTransaction, FetchResponsePartition
from zkbroker.records import offset_after
from zkbroker.runtime import Runtime, Task

logger = logging.getLogger(__name__)

_IDLE_S = 1.0
_ROOM_POLL_S = 0.01
_ROOM_SOON_S = 1.0
_TROUBLES = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR})


class ClusterView(Protocol):
    """What the fetchers need of `zkbroker.discovery.Cluster`."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker that leads a partition as far as is known; never waits."""

    def refresh(self, topics: list[str] | None = None) -> None:
        """Learn anew which broker leads what."""

    def connection(self, broker_id: int, lane: str = "") -> BrokerConnection:
        """Return a connection to a broker that no other lane's long poll holds up."""


class BrokerFetcher:
    """Fetches from one broker in its own task.

    Args:
        broker_id: the broker.
        number: which of its fetchers this is (`num.consumer.fetchers`).
        cluster: gives the connection.
        config: the consumer's settings.
        runtime: the connector's.
        give_back: takes partitions that must be looked for elsewhere.
        times: how long fetches took.
    """

    def __init__(
        self,
        broker_id: int,
        number: int,
        *,
        cluster: ClusterView,
        config: ConsumerConfig,
        runtime: Runtime,
        give_back: Callable[[Iterable[ConsumedPartition]], None],
        times: Histogram,
    ) -> None:
        self._broker_id = broker_id
        self._lane = f"fetch-{number}"
        self._cluster = cluster
        self._config = config
        self._give_back = give_back
        self._times = times
        self._lock = runtime.lock()
        self._partitions: dict[TopicPartition, ConsumedPartition] = {}
        self._wake = runtime.event()
        self._stopping = False
        self._room_seen_at = time.monotonic()
        self._connection: BrokerConnection | None = None
        self.fetches = 0
        """Answers of the broker so far."""
        self.fetched_bytes = 0
        """Bytes of message sets in them."""
        self._task: Task = runtime.spawn(self._run, name=f"fetcher-{broker_id}-{number}")

    def add(self, partition: ConsumedPartition) -> None:
        """Fetch one more partition."""
        with self._lock:
            self._partitions[partition.key] = partition
        self._wake.set()

    def wake(self) -> None:
        """Look again: a stream has room, a partition was sought or revoked."""
        self._room_seen_at = time.monotonic()
        self._wake.set()

    def stop(self) -> None:
        """Stop fetching; what is on its way is dropped. Does not wait."""
        self._stopping = True
        self._wake.set()
        connection = self._connection
        if connection is not None:
            connection.close()

    def join(self, timeout_s: float) -> bool:
        """Wait until the task has ended; False when it has not."""
        return self._task.join(timeout_s)

    # -- the task

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            wanted, full = self._sort_out()
            if not wanted:
                self._wake.wait(_IDLE_S)
                continue
            try:
                came = self._fetch(wanted, hurry=full)
            except (ProtocolError, ClientError, RegistryError) as error:
                if not self._stopping:
                    self._lose(error)
                continue
            except Exception as error:
                # A fault of this library: tell it whole, and let the partitions be tried again.
                logger.exception("fetcher failed broker=%d", self._broker_id)
                self._lose(error)
                continue
            if full and not came:
                self._wake.wait(_ROOM_POLL_S)

    def _sort_out(self) -> tuple[list[tuple[ConsumedPartition, Progress]], bool]:
        """Return what to fetch with the reading it is for, and whether a queue is full."""
        wanted = []
        full = False
        with self._lock:
            for key, partition in list(self._partitions.items()):
                progress = partition.progress
                if partition.revoked:
                    del self._partitions[key]
                elif partition.halted:
                    continue
                elif partition.has_room:
                    wanted.append((partition, progress))
                else:
                    full = True
        # A reader that took nothing for long is slow enough to wait for one long poll.
        return wanted, full and time.monotonic() - self._room_seen_at < _ROOM_SOON_S

    def _lose(self, error: Exception) -> None:
        with self._lock:
            partitions, self._partitions = self._partitions, {}
        logger.warning(
            "fetch failed broker=%d partitions=%d error=%s",
            self._broker_id,
            len(partitions),
            error,
        )
        self._give_back(partitions.values())

    def _fetch(self, partitions: list[tuple[ConsumedPartition, Progress]], *, hurry: bool) -> bool:
        """Fetch once; return whether anything came."""
        connection = self._connection = self._cluster.connection(self._broker_id, self._lane)
        self._start(connection, [pair for pair in partitions if pair[0].fetch_offset is None])
        asked: dict[TopicPartition, tuple[ConsumedPartition, Progress, int]] = {}
        wanted: dict[TopicPartition, Wanted] = {}
        for partition, progress in partitions:
            with partition.lock:
                offset = partition.fetch_offset
                if partition.progress is not progress or offset is None:
                    continue
            asked[partition.key] = partition, progress, offset
            wanted[partition.key] = Wanted(offset, partition.fetch_bytes)
        if not wanted:
            return False
        config = self._config
        wait_ms = 0 if hurry else config.fetch_wait_max_ms
        started = time.monotonic()
        response = connection.request(
            fetch_request(
                wanted,
                max_wait_ms=wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_response_max_bytes,
                read_committed=config.read_committed,
            ),
            timeout_s=(config.socket_timeout_ms + wait_ms) / 1000,
        )
        if response.error_code:
            raise protocol_error(response.error_code, f"fetch from broker {self._broker_id}")
        self.fetches += 1
        self._times.observe(time.monotonic() - started)
        came = False
        lost: list[ConsumedPartition] = []
        for topic in response.topics:
            for part in topic.partitions:
                key = topic.topic, part.partition
                if key not in asked:
                    continue
                came = self._take(connection, part, *asked[key], lost) or came
        if lost:
            self._drop(lost)
        return came

    def _take(
        self,
        connection: BrokerConnection,
        part: FetchResponsePartition,
        partition: ConsumedPartition,
        progress: Progress,
        offset: int,
        lost: list[ConsumedPartition],
    ) -> bool:
        """Handle the answer of one partition; return whether data came."""
        where = f"{partition.topic}-{partition.partition} at offset {offset}"
        error: ProtocolError
        if part.error_code == ErrorCode.NONE:
            partition.high_watermark = part.high_watermark
            partition.trouble = ErrorCode.NONE
            records: Any = part.records
            if not records:
                return False
            try:
                aborted = part.aborted_transactions
                return self._add(partition, progress, offset, records, where, aborted)
            except ProtocolError as bad:
                error = bad
        elif part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(connection, {partition.key: (partition, progress)}, out_of_range=where)
            return True
        else:
            error = protocol_error(part.error_code, f"fetch of {where}")
            if error.code.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                # That a leader has moved is the course of things; that it cannot read is not.
                unusual = error.code in _TROUBLES and partition.trouble != error.code
                partition.trouble = error.code
                logger.log(
                    logging.WARNING if unusual else logging.INFO,
                    "partition given back %s error=%s",
                    where,
                    error.code.name,
                )
                lost.append(partition)
                return False
        logger.error("partition halted %s error=%s", where, error)
        partition.add(Chunk(partition, progress, offset, offset, error=error))
        return True

    def _add(
        self,
        partition: ConsumedPartition,
        progress: Progress,
        offset: int,
        records: memoryview,
        where: str,
        aborted: Sequence[AbortedTransaction] | None = None,
    ) -> bool:
        self.fetched_bytes += len(records)
        partition.counts.add(0, len(records))
        check_size(records, self._config.fetch_message_limit_bytes, where)
        next_offset = offset_after(records)
        if next_offset is None:
            partition.fetch_bytes = doubled(
                partition.fetch_bytes, self._config.fetch_message_limit_bytes, where
            )
            return True
        partition.fetch_bytes = self._config.fetch_message_max_bytes
        if next_offset <= offset:
            return False
        # A copy, since a slice would keep the whole answer of all partitions in memory.
        chunk = Chunk(partition, progress, offset, next_offset, committed(records, aborted))
        added = partition.add(chunk)
        if added:
            # Brokers fill an answer in the order of the request: those served go to its end.
            with self._lock:
                if self._partitions.get(partition.key) is partition:
                    del self._partitions[partition.key]
                    self._partitions[partition.key] = partition
        return added

    def _drop(self, lost: list[ConsumedPartition]) -> None:
        given_back = []
        with self._lock:
            for partition in lost:
                # A later ownership of the same partition may have taken its place.
                if self._partitions.get(partition.key) is partition:
                    del self._partitions[partition.key]
                    given_back.append(partition)
        self._give_back(given_back)

    # -- where to start, and where to go on when an offset is not in the log

    def _start(
        self, connection: BrokerConnection, partitions: list[tuple[ConsumedPartition, Progress]]
    ) -> None:
        if partitions:
            self._reset(connection, {p.key: (p, progress) for p, progress in partitions})

    def _reset(
        self,
        connection: BrokerConnection,
        partitions: Mapping[TopicPartition, tuple[ConsumedPartition, Progress]],
        *,
        out_of_range: str = "",
    ) -> None:
        policy = self._config.auto_offset_reset
        if policy == FAIL:
            for partition, progress in partitions.values():
                self._fail(connection, partition, progress, out_of_range)
            return
        time_ms = EARLIEST_TIME if policy == SMALLEST else LATEST_TIME
        found = list_offsets(
            connection,
            dict.fromkeys(partitions, time_ms),
            read_committed=self._config.read_committed,
        )
        lost = []
        for key, (partition, progress) in partitions.items():
            offsets = found.get(key)
            if isinstance(offsets, list) and offsets:
                logger.info(
                    "offset reset topic=%s partition=%d offset=%d policy=%s%s",
                    *key,
                    offsets[0],
                    policy,
                    f" out_of_range={out_of_range}" if out_of_range else "",
                )
                partition.reset(progress, offsets[0])
            else:
                logger.info("offset unknown topic=%s partition=%d error=%s", *key, offsets)
                lost.append(partition)
        if lost:
            self._drop(lost)

    @staticmethod
    def _fail(
        connection: BrokerConnection,
        partition: ConsumedPartition,
        progress: Progress,
        out_of_range: str,
    ) -> None:
        earliest, latest = valid_range(connection, partition.topic, partition.partition)
        what = out_of_range or f"{partition.topic}-{partition.partition} has no committed offset"
        error = OffsetOutOfRange(
            f"{what}: the log holds {earliest} to {latest}; seek, or set auto.offset.reset",
            earliest=earliest,
            latest=latest,
        )
        offset = partition.fetch_offset if partition.fetch_offset is not None else -1
        partition.add(Chunk(partition, progress, offset, offset, error=error))
