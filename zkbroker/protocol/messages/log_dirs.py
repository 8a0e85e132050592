"""DescribeLogDirs (35): the partitions in the data directories of one broker, with their sizes."""

from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    boolean,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)


@wire_message
class DescribeLogDirsTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class DescribeLogDirsRequest(Request):
    """Args: topics null asks for every partition."""

    topics: list[DescribeLogDirsTopic] | None = array(
        DescribeLogDirsTopic, nullable=0, default=None
    )


@keyword_message
class LogDirPartition:
    """Args: offset_lag: how far the log end is behind the high watermark; 0 for a leader."""

    partition: int = int32()
    size: int = int64()
    offset_lag: int = int64()
    is_future: bool = boolean()


@wire_message
class LogDirTopic:
    topic: str = string()
    partitions: list[LogDirPartition] = array(LogDirPartition)


@wire_message
class LogDir:
    error_code: int = int16()
    log_dir: str = string()
    topics: list[LogDirTopic] = array(LogDirTopic)


@wire_message
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32()
    log_dirs: list[LogDir] = array(LogDir)
