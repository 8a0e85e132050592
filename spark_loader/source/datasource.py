"""`format("zkbroker")`: the counterpart of Spark's own Kafka source.

    spark.read.format("zkbroker")          batch     ranges fixed when the query is planned
    spark.readStream.format("zkbroker")    stream    see `stream.py`
    df.write / df.writeStream              writer    see `writer.py`

Invariant: planning happens once, in the driver; tasks read exactly the ranges they were given.
Sources and readers are pickled to the workers, so they hold options and nothing open.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    InputPartition,
)

from spark_loader.reading.access import Access, NetworkAccess
from spark_loader.reading.cuts import at_cuts
from spark_loader.reading.generations import find_generation
from spark_loader.reading.options import SourceOptions
from spark_loader.reading.resolve import SourceCluster, find_partitions, resolve
from spark_loader.reading.splits import OffsetRange
from spark_loader.source.pushdown import Pushed, push
from spark_loader.source.stream import ZkbrokerStreamReader
from spark_loader.source.tasks import plan_tasks, read_range, with_bytes
from spark_loader.source.writer import ZkbrokerStreamWriter, ZkbrokerWriter
from zkbroker.errors import ConfigError, UnsupportedForMessageFormat

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)
HEADERS_SCHEMA = f"{SCHEMA}, headers array<struct<key string, value binary>>"


class ZkbrokerSource(DataSource):
    """The data source; `spark_loader.register` makes it known to a session."""

    access: Access = NetworkAccess()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "zkbroker"

    def schema(self) -> str:
        """Return the schema, which only `includeHeaders` changes."""
        headers = str(self.options.get("includeHeaders", "false")).strip().lower()
        return HEADERS_SCHEMA if headers == "true" else SCHEMA

    def reader(self, schema: Any) -> "ZkbrokerReader":
        """Return a reader for a batch."""
        options = SourceOptions.parse(dict(self.options), streaming=False)
        self._check(schema)
        return ZkbrokerReader(options, self.access)

    def streamReader(self, schema: Any) -> ZkbrokerStreamReader:
        """Return a reader for a stream."""
        options = SourceOptions.parse(dict(self.options), streaming=True)
        self._check(schema)
        return ZkbrokerStreamReader(options, self.access)

    def writer(self, schema: Any, overwrite: bool) -> ZkbrokerWriter:
        """Return a writer for a batch."""
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: write with mode("append")')
        return ZkbrokerWriter(dict(self.options), schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> ZkbrokerStreamWriter:
        """Return a writer for a stream."""
        return ZkbrokerStreamWriter(dict(self.options), schema)

    def _check(self, schema: Any) -> None:
        expected = [part.split()[0] for part in SCHEMA.split(", ")]
        if self.schema() == HEADERS_SCHEMA:
            expected.append("headers")
        if schema.fieldNames() != expected:
            raise ConfigError(f"the schema of this source is fixed: {self.schema()}")


@dataclass
class ZkbrokerReader(DataSourceReader):
    """Reads the records between two bounds, both fixed when the query is planned."""

    options: SourceOptions
    access: Access
    pushed: Pushed = field(default_factory=Pushed)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the predicates that ranges can meet; return the others."""
        if not find_generation(self.options.connect.generation).counts_records:
            # In Kafka 0.7 ranges end between entries, and rows have no times.
            return filters
        self.pushed, left = push(filters)
        return left

    def partitions(self) -> list[InputPartition]:
        """Fix the offsets and cut them into tasks."""
        view = self.access.view(self.options.connect)
        try:
            return plan_tasks(self._ranges(view), self.options, view)
        finally:
            view.close()

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a range."""
        return read_range(partition, self.options, self.access)

    def _ranges(self, view: SourceCluster) -> list[OffsetRange]:
        options = self.options
        found = find_partitions(options.subscription, view)
        starts = resolve(
            options.starting,
            found,
            view,
            option="startingOffsets",
            latest_when_no_time_matches=options.latest_when_no_time_matches,
        )
        ends = resolve(
            options.ending, found, view, option="endingOffsets", latest_when_no_time_matches=True
        )
        ends = at_cuts(view, starts, ends)
        wanted = [tp for tp in found if self.pushed.wants(tp)]
        ranges = [
            self.pushed.narrow(OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp]))
            for tp in wanted
        ]
        ranges = self._since(ranges, view)
        return with_bytes(ranges, view) if options.min_partitions else ranges

    def _since(self, ranges: list[OffsetRange], view: SourceCluster) -> list[OffsetRange]:
        """Skip the offsets before the first record as new as a pushed-down time."""
        since_ms = self.pushed.since_ms
        if since_ms is None or not ranges:
            return ranges
        try:
            found = view.at_time({each.source: since_ms for each in ranges})
        except UnsupportedForMessageFormat:
            return ranges
        later = []
        for each in ranges:
            first = found[each.source]
            start = each.until if first is None else max(each.start, first)
            later.append(OffsetRange(each.topic, each.partition, start, each.until))
        return later


def register(spark: Any, access: Access | None = None) -> None:
    """Make `format("zkbroker")` known to a Spark session.

    Args:
        spark: the session. Its `spark.sql.python.filterPushdown.enabled` is turned on, which the
            source needs.
        access: how clusters are reached, for tests.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    source: type[ZkbrokerSource] = ZkbrokerSource
    if access is not None:

        class OtherAccess(ZkbrokerSource):
            pass

        OtherAccess.access = access
        source = OtherAccess
    spark.dataSource.register(source)
