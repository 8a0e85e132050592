"""Loads the topic to Parquet with Spark, and reads the lake back."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset

from examples.demo.access_log import member
from spark_loader import EventTime, Loader, LoadResult, Progress


def load(zookeeper: str, topic: str, data: Path, advance: Callable[[Progress], None]) -> LoadResult:
    """Load what is new in a topic into `data/lake`, in one directory for each event hour.

    Args:
        zookeeper: connect string.
        topic: which topic.
        data: the demo's directory.
        advance: called with what the load is doing.
    """
    return Loader(
        zookeeper=zookeeper,
        topics=[topic],
        output=str(data / "lake"),
        group="loader",
        event_time=EventTime.access_log(),
        progress=advance,
        master="local[2]",
    ).run()


def visits(data: Path) -> Counter[bytes]:
    """Count the visits per member in the lake, all runs together."""
    lake = pyarrow.dataset.dataset(data / "lake", format="parquet", partitioning="hive")
    counts: Counter[bytes] = Counter()
    for batch in lake.to_batches(columns=["value"]):
        counts.update(member(value.as_py()) for value in batch.column("value"))
    return counts
