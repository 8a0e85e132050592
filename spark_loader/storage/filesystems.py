"""Which file system serves an output directory, by its scheme."""

import os
import re
from collections.abc import Mapping
from typing import Any

from spark_loader.storage.files import LakeFileSystem, LocalFileSystem
from zkbroker.errors import ConfigError

# Two letters at least: C:/lake is a path.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)")


def filesystem_for(
    output: str,
    spark: Any = None,
    settings: Mapping[str, str] | None = None,
    storage: Mapping[str, str] | None = None,
) -> LakeFileSystem:
    """Return the file system of a path, a bucket, or a URI of any scheme that Hadoop supports.

    Args:
        output: a local path, `s3://bucket/lake`, or a URI such as `hdfs://name:8020/lake`.
        spark: a session whose Java machine and Hadoop configuration are used.
        settings: Hadoop properties, where there is no session.
        storage: settings of S3, beside those of the environment; see `s3.s3_settings`.

    Raises:
        ConfigError: a setting is not known, or fits no such file system.
    """
    if is_s3(output):
        from spark_loader.storage.s3 import S3FileSystem

        return S3FileSystem.of(output, storage or {})
    if storage:
        raise ConfigError(f"storage options are for s3://, not for {output}")
    if is_local(output):
        return LocalFileSystem()
    from spark_loader.storage.hadoop import HadoopFileSystem, hadoop_settings, use_session

    if spark is not None:
        use_session(spark)
        settings = hadoop_settings(spark)
    return HadoopFileSystem(output, settings or {})


def is_local(output: str) -> bool:
    """Return whether an output directory is in this machine's own file system."""
    scheme = _SCHEME.match(output)
    return scheme is None or scheme[1] == "file"


def is_s3(output: str) -> bool:
    """Return whether an output directory is in a bucket that is reached without Java."""
    scheme = _SCHEME.match(output)
    return scheme is not None and scheme[1] == "s3"


def spark_path(path: str) -> str:
    """Return a path for Spark, which reads buckets by Hadoop's own classes."""
    return path.replace("s3:", "s3a:", 1) if is_s3(path) else path


def output_path(output: str) -> str:
    """Return an output directory in a form to which file names can be appended.

    Local paths become absolute, since tasks run in directories of their own.
    """
    if not is_local(output):
        return output.rstrip("/")
    path = _FILE_URI.sub("", output, count=1)
    return os.path.abspath(re.sub("^/+", "/", path))  # noqa: PTH100 - Path.resolve follows links
