"""Loads topics into a lake with Spark, checkpointing offsets per mapper.

`Loader` is the bulk load; `register` makes `format("zkbroker")` known to a Spark session; `read`
reads what was loaded, published files only.
"""

from typing import Any

from spark_loader.errors import CheckpointError, DataLoss, LoadError, QuarantineLimit
from spark_loader.eventtime import EventTime
from spark_loader.job import Loader, LoadResult
from spark_loader.load_options import LoadOptions
from spark_loader.progress import Progress
from spark_loader.session import session

__all__ = [
    "Loader",
    "LoadOptions",
    "LoadResult",
    "EventTime",
    "Progress",
    "session",
    "register",
    "LoadError",
    "DataLoss",
    "QuarantineLimit",
    "CheckpointError",
]


def register(spark: Any) -> None:
    """Make `format("zkbroker")` known to a Spark session; see `spark_loader.datasource`."""
    # Workers of a load import this package too, and need nothing of the source.
    from spark_loader.datasource import register as register_source

    register_source(spark)
