"""One fetcher: it fetches the partitions that one broker leads, one request at a time.

    wanted partitions --one Fetch--> broker --answer--> a chunk for each partition with data

Invariants, beside those of `fetch_loop`:
- An answer for a partition that was taken away meanwhile is dropped.
- While partitions without room are left out, a fetch does not wait at the broker.
- Requests name the known leader epoch, so that a deposed leader that does not know it yet refuses
  them. An offset counts as out of range after two such answers, the second one after fresh
  metadata, if the log's range agrees.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from zkbroker.client import Cluster
from zkbroker.client.fetch import (
    Wanted,
    check_size,
    committed,
    doubled,
    end_of,
    fetched,
    send_fetch,
)
from zkbroker.client.list_offsets import (
    EARLIEST_TIME,
    LATEST_TIME,
    list_offsets,
    valid_range,
)
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.shared_options import FAIL, SMALLEST
from zkbroker.consumer.fetching.fetch_loop import FetchLoop, GiveBack
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition, ReadProgress
from zkbroker.errors import (
    ErrorCode,
    OffsetOutOfRange,
    ProtocolError,
    protocol_error,
)
from zkbroker.measures import Histogram
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages.fetch import FetchResponseAbortedTransaction, FetchResponsePartition
from zkbroker.records import offset_after
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_TROUBLES = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR})


class BrokerFetcher(FetchLoop):
    """Fetches from one broker of Kafka 0.8 or later.

    Args:
        broker_id: the broker.
        number: which of its fetchers this is.
        cluster: gives the connection.
        settings: of all fetches of the consumer.
        runtime: the connector's.
        give_back: takes partitions whose leader must be looked up again.
        times: how long fetches took.
    """

    def __init__(
        self,
        broker_id: int,
        number: int,
        *,
        cluster: Cluster,
        settings: FetchSettings,
        runtime: Runtime,
        give_back: GiveBack,
        times: Histogram,
    ) -> None:
        self._lane = f"fetch-{number}"
        self._cluster = cluster
        self._settings = settings
        self._times = times
        self._connection: BrokerConnection | None = None
        super().__init__(broker_id, number, leaders=cluster, runtime=runtime, give_back=give_back)

    def _disconnect(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.close()

    def _fetch(
        self, partitions: list[tuple[ConsumedPartition, ReadProgress]], *, hurry: bool
    ) -> bool:
        """Fetch once; return whether anything came."""
        moved = [partition for partition, _ in partitions if self._moved(partition)]
        if moved:
            self._drop(moved)
            return True
        connection = self._connection = self._cluster.connection(self._broker_id, self._lane)
        starting = {p.key: (p, progress) for p, progress in partitions if p.fetch_offset is None}
        if starting:
            self._reset(connection, starting)
        asked: dict[PartitionKey, tuple[ConsumedPartition, ReadProgress, int]] = {}
        wanted: dict[PartitionKey, Wanted] = {}
        epoch = self._cluster.leader_epoch
        for partition, progress in partitions:
            with partition.lock:
                offset = partition.fetch_offset
                if partition.progress is not progress or offset is None:
                    continue
            asked[partition.key] = partition, progress, offset
            wanted[partition.key] = Wanted(offset, partition.fetch_bytes, epoch(*partition.key))
        if not wanted:
            return False
        started = time.monotonic()
        pending = send_fetch(connection, wanted, self._settings, max_wait_ms=0 if hurry else None)
        answers = list(fetched(pending, self._settings))
        self.fetches += 1
        self._times.observe(time.monotonic() - started)
        came = False
        lost: list[ConsumedPartition] = []
        for key, part in answers:
            if key in asked:
                came = self._take(connection, part, *asked[key], lost) or came
        if lost:
            self._drop(lost)
        return came

    def _take(
        self,
        connection: BrokerConnection,
        part: FetchResponsePartition,
        partition: ConsumedPartition,
        progress: ReadProgress,
        offset: int,
        lost: list[ConsumedPartition],
    ) -> bool:
        """Handle the answer of one partition; return whether data came."""
        if self._partitions.get(partition.key) is not partition:
            return False
        where = f"{partition.topic}-{partition.partition} at offset {offset}"
        error: ProtocolError
        if part.error_code == ErrorCode.NONE:
            partition.high_watermark = end_of(part, read_committed=self._settings.read_committed)
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
            if self._out_of_range(connection, partition, offset):
                self._reset(connection, {partition.key: (partition, progress)}, out_of_range=where)
                return True
            logger.info("partition given back %s error=OFFSET_OUT_OF_RANGE", where)
            lost.append(partition)
            return False
        else:
            error = protocol_error(part.error_code, f"fetch of {where}")
            if error.code.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                # A leader that has moved is normal; one that cannot read is not.
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
        progress: ReadProgress,
        offset: int,
        records: memoryview,
        where: str,
        aborted: Sequence[FetchResponseAbortedTransaction] | None = None,
    ) -> bool:
        self.fetched_bytes += len(records)
        partition.counts.add(0, len(records))
        check_size(records, self._settings.limit_bytes, where)
        next_offset = offset_after(records)
        if next_offset is None:
            partition.fetch_bytes = doubled(
                partition.fetch_bytes, self._settings.limit_bytes, where
            )
            return True
        partition.fetch_bytes = self._settings.partition_bytes
        if next_offset <= offset:
            return False
        # A copy, since a slice would keep the whole answer of all partitions in memory.
        chunk = Chunk(partition, progress, offset, next_offset, committed(records, aborted))
        added = partition.add(chunk)
        if added:
            # Brokers fill an answer in the order of the request: move those served to its end.
            with self._lock:
                if self._partitions.get(partition.key) is partition:
                    del self._partitions[partition.key]
                    self._partitions[partition.key] = partition
        return added

    # -- start offsets, and resets of offsets that are out of range

    def _out_of_range(
        self, connection: BrokerConnection, partition: ConsumedPartition, offset: int
    ) -> bool:
        """Whether an offset is out of range of the log, not only of a former leader's log."""
        if partition.doubted_offset != offset:
            partition.doubted_offset = offset
            return False
        epoch = self._cluster.leader_epoch(*partition.key)
        try:
            earliest, latest = valid_range(connection, *partition.key, epoch)
        except ProtocolError as error:
            logger.info("range unknown %s-%d error=%s", *partition.key, error)
            return False
        return not earliest <= offset <= latest

    def _reset(
        self,
        connection: BrokerConnection,
        partitions: Mapping[PartitionKey, tuple[ConsumedPartition, ReadProgress]],
        *,
        out_of_range: str = "",
    ) -> None:
        policy = self._settings.auto_offset_reset
        if policy == FAIL:
            for partition, progress in partitions.values():
                self._fail(connection, partition, progress, out_of_range)
            return
        time_ms = EARLIEST_TIME if policy == SMALLEST else LATEST_TIME
        found = list_offsets(
            connection,
            dict.fromkeys(partitions, time_ms),
            read_committed=self._settings.read_committed,
            epochs={key: self._cluster.leader_epoch(*key) for key in partitions},
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
        progress: ReadProgress,
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
