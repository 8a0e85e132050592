"""The tasks of the source, the same for batches and streams."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_loader.lake.ledger import Gap
from spark_loader.reading.access import Access
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.cuts import split_at_cuts
from spark_loader.reading.generations import find_generation
from spark_loader.reading.options import SourceOptions
from spark_loader.reading.reader import NOT_LOADED
from spark_loader.reading.resolve import SourceCluster, estimate_bytes
from spark_loader.reading.splits import OffsetRange, split_for_reading
from spark_loader.worker import settle

logger = logging.getLogger(__name__)

_BATCH_ROWS = 65_536


class RangePartition(InputPartition):
    """One task's range, with the addresses it reads from."""

    def __init__(self, wanted: OffsetRange, connect: ConnectOptions) -> None:
        super().__init__(str(wanted))
        self.wanted = wanted
        self.connect = connect


def plan_tasks(
    ranges: Sequence[OffsetRange], options: SourceOptions, view: SourceCluster
) -> list[InputPartition]:
    """Cut ranges into tasks, which reach brokers by address, without ZooKeeper sessions."""
    pieces = split_at_cuts(
        view,
        split_for_reading(
            ranges,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        ),
    )
    connect = replace(options.connect, zookeeper=None, bootstrap=view.bootstrap())
    return [RangePartition(piece, connect) for piece in pieces]


def with_bytes(ranges: Sequence[OffsetRange], view: SourceCluster) -> list[OffsetRange]:
    """Return ranges with their bytes estimated."""
    begin = {each.source: each.start for each in ranges}
    until = {each.source: each.until for each in ranges}
    sizes = estimate_bytes(view, begin, until)
    return [
        OffsetRange(each.topic, each.partition, each.start, each.until, sizes[each.source])
        for each in ranges
    ]


def read_range(partition: Any, options: SourceOptions, access: Access) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one task's range; none for the empty partition of an empty query."""
    if not isinstance(partition, RangePartition):
        return
    settle()
    fetcher = access.fetcher(partition.connect)
    try:
        reader = find_generation(partition.connect.generation).reader(
            fetcher,
            fetch_bytes=partition.connect.fetch_bytes,
            headers=options.include_headers,
            on_out_of_range="fail" if options.fail_on_data_loss else "earliest",
            verify_crc=partition.connect.check_crcs,
            advice="Set failOnDataLoss=false to go on without what is lost",
        )
        for piece in reader.read(partition.wanted):
            if isinstance(piece, pa.RecordBatch):
                for start in range(0, piece.num_rows, _BATCH_ROWS):
                    yield piece.slice(start, _BATCH_ROWS)
            elif isinstance(piece, Gap) and piece.cause not in NOT_LOADED:
                logger.warning("offsets skipped %s", piece)
    finally:
        fetcher.close()
