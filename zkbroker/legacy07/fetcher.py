"""The fetcher of one 0.7 broker: all its partitions in one multifetch, again and again.

A broker of 0.7 answers at once, even without data: the fetcher then waits for `fetcher.backoff.ms`.
The answer has no log end either, so the fetcher asks for that from time to time, for the lag.

Invariant, beside those of `fetch_loop`: a position moves only by the bytes of whole entries.
"""

import logging
import time
from collections.abc import Sequence

from zkbroker.client import BrokerUnavailable, Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.shared_options import FAIL, SMALLEST
from zkbroker.consumer.fetching.fetch_loop import FetchLoop, GiveBack
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition, ReadProgress
from zkbroker.errors import ErrorCode, OffsetOutOfRange, UnknownTopicOrPartition
from zkbroker.legacy07.simple import Fetched07, SimpleConsumer07
from zkbroker.measures import Histogram
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07

logger = logging.getLogger(__name__)

_ENDS_EVERY_S = 5.0

Wanted = tuple[ConsumedPartition, ReadProgress, int]


class BrokerFetcher07(FetchLoop):
    """Fetches from one 0.7 broker; arguments as of `BrokerFetcher`.

    Args:
        idle_ms: how long to wait after an answer without data.
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
        idle_ms: int,
    ) -> None:
        self.idle_s = idle_ms / 1000
        self._cluster = cluster
        self._settings = settings
        self._runtime = runtime
        self._times = times
        self._consumer: SimpleConsumer07 | None = None
        self._ends_due = time.monotonic()
        super().__init__(broker_id, number, leaders=cluster, runtime=runtime, give_back=give_back)

    def _disconnect(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            consumer.close()

    def _connected(self) -> SimpleConsumer07:
        address = self._cluster.brokers().get(self._broker_id)
        if address is None:
            raise BrokerUnavailable(f"broker {self._broker_id} of the 0.7 cluster is down")
        consumer = self._consumer
        if consumer is not None:
            here = (consumer.host, consumer.port) == (address.host, address.port)
            if here and not consumer.closed:
                return consumer
            consumer.close()
        self._consumer = SimpleConsumer07(
            address.host,
            address.port,
            socket_timeout_ms=self._settings.timeout_ms,
            fetch_bytes=self._settings.partition_bytes,
            max_fetch_bytes=self._settings.limit_bytes,
            receive_buffer_bytes=self._settings.receive_buffer_bytes,
            runtime=self._runtime,
        )
        return self._consumer

    def _fetch(
        self, partitions: list[tuple[ConsumedPartition, ReadProgress]], *, hurry: bool
    ) -> bool:
        consumer = self._connected()
        for partition, progress in partitions:
            if partition.fetch_offset is None:
                self._reset(consumer, partition, progress)
        asked: list[Wanted] = []
        for partition, progress in partitions:
            with partition.lock:
                offset = partition.fetch_offset
                if partition.progress is progress and offset is not None:
                    asked.append((partition, progress, offset))
        if not asked:
            return False
        started = time.monotonic()
        found = consumer.fetch_entries(
            [(each.topic, _number(each), offset) for each, _, offset in asked]
        )
        self.fetches += 1
        self._times.observe(time.monotonic() - started)
        came = False
        lost: list[ConsumedPartition] = []
        for wanted, each in zip(asked, found, strict=True):
            came = self._take(consumer, wanted, each, lost) or came
        if lost:
            self._drop(lost)
        if time.monotonic() >= self._ends_due:
            self._ends_due = time.monotonic() + _ENDS_EVERY_S
            self._ask_ends(consumer, asked)
        return came

    def _take(
        self,
        consumer: SimpleConsumer07,
        wanted: Wanted,
        found: Fetched07,
        lost: list[ConsumedPartition],
    ) -> bool:
        """Handle the answer of one partition; return whether data came."""
        partition, progress, offset = wanted
        if self._partitions.get(partition.key) is not partition:
            return False
        error = found.error
        if error is None:
            partition.trouble = ErrorCode.NONE
            partition.high_watermark = max(partition.high_watermark, found.next_offset)
            if found.next_offset == offset:
                return False
            size = len(found.data)
            self.fetched_bytes += size
            partition.counts.add(0, size)
            # A copy: a slice would keep the answer of all partitions in memory.
            return partition.add(
                Chunk(partition, progress, offset, found.next_offset, bytes(found.data))
            )
        if isinstance(error, OffsetOutOfRange):
            self._reset(consumer, partition, progress, out_of_range=offset)
            return True
        if isinstance(error, UnknownTopicOrPartition):
            # Its broker came back with fewer partitions.
            level = logging.INFO if partition.trouble == error.code else logging.WARNING
            partition.trouble = error.code
            logger.log(level, "partition given back %s-%s error=%s", *partition.key, error)
            lost.append(partition)
            return False
        logger.error("partition halted %s-%s offset=%d error=%s", *partition.key, offset, error)
        partition.add(Chunk(partition, progress, offset, offset, error=error))
        return True

    def _reset(
        self,
        consumer: SimpleConsumer07,
        partition: ConsumedPartition,
        progress: ReadProgress,
        *,
        out_of_range: int | None = None,
    ) -> None:
        """Reset to the policy's offset: there is no offset, or it is not in the log."""
        policy = self._settings.auto_offset_reset
        if policy == FAIL:
            earliest = _offset(consumer, partition, EARLIEST_TIME)
            latest = _offset(consumer, partition, LATEST_TIME)
            what = "no committed offset" if out_of_range is None else f"no offset {out_of_range}"
            error = OffsetOutOfRange(
                f"{partition.topic}-{partition.partition} has {what}: the log has {earliest} to "
                f"{latest}; seek, or set autooffset.reset",
                earliest=earliest,
                latest=latest,
            )
            at = -1 if out_of_range is None else out_of_range
            partition.add(Chunk(partition, progress, at, at, error=error))
            return
        time_ms = EARLIEST_TIME if policy == SMALLEST else LATEST_TIME
        offset = _offset(consumer, partition, time_ms)
        logger.info(
            "offset reset topic=%s partition=%s offset=%d policy=%s%s",
            *partition.key,
            offset,
            policy,
            "" if out_of_range is None else f" out_of_range={out_of_range}",
        )
        partition.reset(progress, offset)

    @staticmethod
    def _ask_ends(consumer: SimpleConsumer07, asked: Sequence[Wanted]) -> None:
        for partition, _, _ in asked:
            partition.high_watermark = _offset(consumer, partition, LATEST_TIME)


def _number(partition: ConsumedPartition) -> int:
    return Partition07.from_number(partition.partition).number


def _offset(consumer: SimpleConsumer07, partition: ConsumedPartition, time_ms: int) -> int:
    found = consumer.offsets(partition.topic, _number(partition), time_ms)
    return found[0] if found else 0
