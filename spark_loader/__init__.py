"""Loads topics into a lake with Spark, checkpointing offsets per mapper.

`Loader` is the bulk load; `register` makes `format("zkbroker")` known to a Spark session; `read`
reads what was loaded, published files only.
"""

from importlib.util import find_spec
from typing import Any

if find_spec("pyarrow") is None or find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "spark_loader needs PySpark and PyArrow: pip install 'zkbroker[spark]'",
        name="spark_loader",
    )

from spark_loader.errors import CheckpointError, DataLoss, LoadError, QuarantineLimit
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import live
from spark_loader.load.job import Loader
from spark_loader.load.options import LoadOptions
from spark_loader.load.progress import Progress
from spark_loader.load.result import LoadResult
from spark_loader.session import session
from spark_loader.sink.event_time import EventTime
from spark_loader.storage.files import join
from spark_loader.storage.filesystems import filesystem_for

__all__ = [
    "Loader",
    "LoadOptions",
    "LoadResult",
    "EventTime",
    "Progress",
    "session",
    "register",
    "read",
    "LoadError",
    "DataLoss",
    "QuarantineLimit",
    "CheckpointError",
]


def register(spark: Any) -> None:
    """Make `format("zkbroker")` known to a Spark session; see `spark_loader.source.datasource`."""
    # Workers of a load import this package too, and need nothing of the source.
    from spark_loader.source.datasource import register as register_source

    register_source(spark)


def read(spark: Any, output: str) -> Any:
    """Return a DataFrame over the published Parquet files of a load, and no others.

    Args:
        spark: the session.
        output: the load's output directory.

    Raises:
        LoadError: nothing was published there.
    """
    filesystem = filesystem_for(output, spark)
    checkpoints = Checkpoints(filesystem, output)
    data, _ = live(checkpoints.manifests())
    paths = [join(checkpoints.output, each.path) for each in data if each.rows]
    if not paths:
        raise LoadError(f"nothing was loaded into {output} yet")
    return spark.read.option("basePath", checkpoints.output).parquet(*paths)
