"""The log: segments, indexes, recovery, retention; Kafka's own files, in both directions.

A `LogManager` opens the data directories and hands out a `Log` for each partition. It knows no
network and no ZooKeeper, and takes its concurrency from a `Runtime`.
"""

from zkbroker.log.fs import FileSystem
from zkbroker.log.log import Log
from zkbroker.log.manager import LogManager
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery.scan import Cut
from zkbroker.log.results import AppendResult, ReadResult

__all__ = [
    "AppendResult",
    "Cut",
    "FileSystem",
    "Log",
    "LogManager",
    "ReadResult",
    "TopicPartition",
]
