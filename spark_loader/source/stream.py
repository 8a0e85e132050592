"""The streaming source: micro-batches between two sets of offsets.

    start offsets ─▶ latestOffset(start, limit) ─▶ end offsets ─▶ partitions(start, end) ─▶ tasks

Offsets are JSON in the form of Spark's own Kafka source, `{"topic": {"0": 23}}`, and Spark's
checkpoint keeps them. Invariant: the same start and end give the same ranges, whenever and wherever
the batch is run again.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_loader.errors import DataLoss
from spark_loader.reading.access import Access
from spark_loader.reading.cuts import at_cuts
from spark_loader.reading.generations import find_generation
from spark_loader.reading.options import SourceOptions
from spark_loader.reading.positions import TopicPartition, flat_numbers, partition_numbers
from spark_loader.reading.resolve import SourceCluster, find_partitions, resolve
from spark_loader.reading.splits import OffsetRange, cap_records
from spark_loader.source.tasks import plan_tasks, read_range, with_bytes

logger = logging.getLogger(__name__)

Offsets = dict[str, dict[str, int]]


class ZkbrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in one process of the driver; `read` runs in the tasks."""

    def __init__(self, options: SourceOptions, access: Access) -> None:
        self._options = options
        self._access = access
        self._view: SourceCluster | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._seen: dict[TopicPartition, int] | None = None
        self._waiting_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Travel to the tasks without the connection."""
        return {**self.__dict__, "_view": None}

    def initialOffset(self) -> Offsets:
        """Return where a query without a checkpoint begins."""
        view = self._connected()
        offsets = resolve(
            self._options.starting,
            find_partitions(self._options.subscription, view),
            view,
            option="startingOffsets",
            latest_when_no_time_matches=self._options.latest_when_no_time_matches,
        )
        return partition_numbers(offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options; if both are set, `latestOffset` checks the minimum."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return where the next micro-batch ends.

        Raises:
            DataLoss: partitions or offsets of `start` are gone and `failOnDataLoss` is on.
        """
        begin = flat_numbers(start)
        latest = self._latest()
        self._seen = latest
        ends = self._reachable(begin, latest)
        for tp in ends.keys() - begin.keys():
            begin[tp] = self._first_offset(tp)
        available = sum(ends[tp] - begin[tp] for tp in ends)
        if self._too_few(available, limit):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = at_cuts(self._connected(), begin, cap_records(begin, ends, limit.max_rows))
        return partition_numbers(ends)

    def reportLatestOffset(self) -> Offsets | None:
        """Return the log ends last seen, for the progress of the query."""
        return partition_numbers(self._seen) if self._seen is not None else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query at the present log ends."""
        self._target = self._latest()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Cut the offsets between two points into tasks."""
        view = self._connected()
        begin = flat_numbers(start)
        ranges = []
        for tp, until in flat_numbers(end).items():
            first = begin[tp] if tp in begin else self._first_offset(tp)
            ranges.append(OffsetRange(tp.topic, tp.partition, first, until))
        if self._options.min_partitions:
            ranges = with_bytes([each for each in ranges if each.size], view)
        return plan_tasks(ranges, self._options, view)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a task's range."""
        return read_range(partition, self._options, self._access)

    def commit(self, end: Offsets) -> None:
        """Show the group's progress in ZooKeeper, when a group is named; Spark never reads it."""
        if self._options.group_id:
            self._connected().commit_group_offsets(self._options.group_id, flat_numbers(end))

    def stop(self) -> None:
        """Close the connection."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _connected(self) -> SourceCluster:
        if self._view is None:
            self._view = self._access.view(self._options.connect)
        return self._view

    def _latest(self) -> dict[TopicPartition, int]:
        view = self._connected()
        return view.latest(find_partitions(self._options.subscription, view))

    def _reachable(
        self, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition: the log end, or the target of AvailableNow."""
        gone = sorted(begin.keys() - latest.keys())
        ends: dict[TopicPartition, int] = {}
        if gone and find_generation(self._options.connect.generation).partitions_return:
            # They come back with their brokers.
            ends.update((tp, begin[tp]) for tp in gone)
        elif gone:
            self._lost(f"{', '.join(map(str, gone))} no longer exist")
        for tp, end in latest.items():
            if self._target is not None:
                # Records and partitions added after the query began are left to the next one.
                if tp not in self._target and tp not in begin:
                    continue
                end = min(end, self._target.get(tp, begin.get(tp, 0)))
            if tp in begin and end < begin[tp]:
                # An earlier end before an open transaction is no loss: the query may have read
                # uncommitted.
                if (
                    latest[tp] < begin[tp]
                    and (log_end := self._connected().log_ends([tp])[tp]) < begin[tp]
                ):
                    self._lost(
                        f"{tp} ends at {log_end}, before offset {begin[tp]} where the last "
                        "batch ended: the log was cut, or the topic created again"
                    )
                end = begin[tp]
            ends[tp] = end
        return ends

    def _first_offset(self, tp: TopicPartition) -> int:
        """Return where a partition begins that was added after the query began."""
        first = self._connected().earliest([tp])[tp]
        if first > 0:
            self._lost(f"{tp} is new to the query, but begins at offset {first}, not 0")
        return first

    def _too_few(self, available: int, limit: ReadLimit) -> bool:
        """Return whether to wait for more, by `minOffsetsPerTrigger` and `maxTriggerDelay`."""
        least = self._options.min_offsets_per_trigger
        if least is None or isinstance(limit, ReadAllAvailable) or self._target is not None:
            return False
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        waited_ms = (now - self._waiting_since) * 1000
        if available >= least or waited_ms >= self._options.max_trigger_delay_ms:
            self._waiting_since = now
            return False
        return True

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}. Set failOnDataLoss=false to go on without what is lost")
        logger.warning("data loss %s", what)
