"""Loads the topic into a lake with Spark, merges its small files, and reads it back."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
from deltalake import DeltaTable

import spark_loader
from examples.demo.access_log import member
from spark_loader import EventTime, Loader, LoadResult, Progress, ValueColumns
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.optimize import Optimized, optimize
from spark_loader.storage.files import LocalFileSystem


def load(zookeeper: str, topic: str, data: Path, advance: Callable[[Progress], None]) -> LoadResult:
    """Load new messages of a topic into `data/lake`, in one directory for each event hour.

    Args:
        zookeeper: connect string.
        topic: which topic.
        data: the demo's directory.
        advance: called with the progress of the load.
    """
    return Loader(
        zookeeper=zookeeper,
        topics=[topic],
        output=str(data / "lake"),
        group="loader",
        columns=ValueColumns.access_log(),
        event_time=EventTime.column("time"),
        progress=advance,
        master="local[2]",
    ).run()


def merge(data: Path) -> Optimized:
    """Merge the small files of each hour, as `zkbroker-load optimize` does."""
    filesystem = LocalFileSystem()
    return optimize(Checkpoints(filesystem, str(data / "lake")))


def answers(data: Path) -> Counter[int]:
    """Count the lines of each status in the lake, by its column."""
    table = DeltaTable(data / "lake").to_pyarrow_table(columns=["status"])
    return Counter(table.column("status").to_pylist())


def visits(data: Path) -> Counter[bytes]:
    """Count the visits per member in the lake, all runs together."""
    lake = pyarrow.dataset.dataset(spark_loader.files(str(data / "lake")), format="parquet")
    counts: Counter[bytes] = Counter()
    for batch in lake.to_batches(columns=["value"]):
        counts.update(member(value.as_py()) for value in batch.column("value"))
    return counts
