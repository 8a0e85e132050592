"""DescribeLogDirs (35): what lies in the data directories of one broker."""

from dataclasses import dataclass
from typing import ClassVar

from zkbroker.protocol.api import ApiKey
from zkbroker.protocol.schema import Kind, array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class DescribeLogDirsTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@dataclass(slots=True)
class DescribeLogDirsRequest:
    """Args: topics null asks for every partition."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS

    topics: list[DescribeLogDirsTopic] | None = array(
        DescribeLogDirsTopic, nullable=0, default=None
    )


@dataclass(slots=True)
class LogDirPartition:
    """Args: offset_lag is how far its log end is behind the high watermark; 0 for a leader."""

    partition: int = int32()
    size: int = int64()
    offset_lag: int = int64()
    is_future: bool = boolean()


@dataclass(slots=True)
class LogDirTopic:
    topic: str = string()
    partitions: list[LogDirPartition] = array(LogDirPartition)


@dataclass(slots=True)
class LogDir:
    error_code: int = int16()
    log_dir: str = string()
    topics: list[LogDirTopic] = array(LogDirTopic)


@dataclass(slots=True)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32()
    log_dirs: list[LogDir] = array(LogDir)
