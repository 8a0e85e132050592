"""Loads topics into a lake with Spark, checkpointing offsets per mapper.

`Loader` is the bulk load; `register` makes `format("zkbroker")` known to a Spark session; `read`
reads the files that the table names, and no others.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

if find_spec("pyarrow") is None or find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "spark_loader needs PySpark and PyArrow: pip install 'zkbroker[lake]' for loads, "
        "'zkbroker[spark]' for the source alone",
        name="spark_loader",
    )

from spark_loader.causes import cause_of
from spark_loader.columns.spec import ValueColumns
from spark_loader.errors import CheckpointError, DataLoss, LoadError, QuarantineLimit
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.operate import table_paths
from spark_loader.load.job import Loader
from spark_loader.load.options import LoadOptions
from spark_loader.load.progress import Progress
from spark_loader.load.result import LoadResult
from spark_loader.session import session
from spark_loader.sink.event_time import EventTime
from spark_loader.storage.filesystems import filesystem_for, output_path, spark_path

__all__ = [
    "Loader",
    "LoadOptions",
    "LoadResult",
    "EventTime",
    "ValueColumns",
    "Progress",
    "session",
    "register",
    "read",
    "files",
    "LoadError",
    "DataLoss",
    "QuarantineLimit",
    "CheckpointError",
    "cause_of",
]


def register(spark: Any) -> None:
    """Make `format("zkbroker")` known to a Spark session; see `spark_loader.source.datasource`."""
    # Workers of a load import this package too, and do not need the source.
    from spark_loader.source.datasource import register as register_source

    register_source(spark)


def files(
    output: str,
    run: int | None = None,
    spark: Any = None,
    storage: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the paths of the Parquet files that a lake holds; any reader of Parquet can read them.

    Args:
        output: the load's output directory.
        run: the table after this run; the present one by default.
        spark: a session, for an output on a Hadoop file system.
        storage: settings of `s3://`, beside those of the environment (`AWS_…`).

    Returns:
        the paths; empty where the table has no rows.

    Raises:
        LoadError: nothing was loaded there, there is no such run, or what was loaded is JSON or raw
            lines, which are not in the table.
    """
    return table_paths(_checkpoints(output, spark, storage), run)


def read(
    spark: Any,
    output: str,
    run: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> Any:
    """Return a DataFrame over the Parquet files that a lake holds, and no others.

    Args:
        spark: the session.
        output: the load's output directory.
        run: the table after this run; the present one by default. `vacuum` removes what is too old.
        storage: settings of `s3://`, beside those of the environment (`AWS_…`). Spark itself reads
            by `s3a`, with its own settings and the classes of `hadoop-aws`.

    Raises:
        LoadError: nothing was loaded there, or there is no such run.
    """
    paths = [spark_path(each) for each in files(output, run, spark, storage)]
    if not paths:
        snapshot = _checkpoints(output, spark, storage).table.newest()
        assert snapshot is not None  # else there would be no paths to ask for
        return spark.createDataFrame(snapshot.schema().empty_table())
    base = spark_path(output_path(output))
    reader = spark.read.option("basePath", base).option("mergeSchema", "true")
    return reader.parquet(*paths)


def _checkpoints(output: str, spark: Any, storage: Mapping[str, str] | None) -> Checkpoints:
    return Checkpoints(filesystem_for(output, spark, storage=storage), output)
