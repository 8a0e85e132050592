"""Which file system serves an output directory, by its scheme."""

import re
from typing import Any

from spark_loader.files import FileSystem, LocalFileSystem


def filesystem_for(output: str, spark: Any = None) -> FileSystem:
    """Return the file system of a path, or of a URI of any scheme that Hadoop knows.

    Args:
        output: a local path, or a URI such as `hdfs://name:8020/lake` or `s3a://bucket/lake`.
        spark: a session whose Java machine and `spark.hadoop.…` settings are used.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", output)
    if scheme is None or scheme[1] == "file":
        return LocalFileSystem()
    from spark_loader.hadoop import HadoopFileSystem, hadoop_settings, use_session

    settings: dict[str, str] = {}
    if spark is not None:
        use_session(spark)
        settings = hadoop_settings(spark)
    return HadoopFileSystem(output, settings)
