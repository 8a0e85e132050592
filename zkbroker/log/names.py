"""Names of partitions, their directories and the files in them, as genuine Kafka has them.

    <data dir>/<topic>-<partition>/%020d.log        messages; the number is the base offset
                                   %020d.index      offset index
                                   %020d.timeindex  time index
                                   %020d.snapshot   producer state before that offset
                                   %020d.txnindex   aborted transactions; made with the first
                                   <file>.deleted   of a segment that left the log; removed later
                                   <file>.cleaned   replacement being written
                                   <file>.swap      replacement being put in place
                                   <segment>.log.corrupt-<ms>   bytes cut off by a recovery
    <data dir>/<topic>-<partition>.<32 hex>-delete/ deleted partition; removed later

Invariant: only this module knows the names; files with other names are left alone.
"""

import re
import uuid
from pathlib import Path

from zkbroker.types import TopicPartition as TopicPartition

LOG = ".log"
INDEX = ".index"
TIMEINDEX = ".timeindex"
SNAPSHOT = ".snapshot"
TXNINDEX = ".txnindex"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
CORRUPT = ".corrupt-"
KAFKA_07 = ".kafka"
INDEX_SUFFIXES = (INDEX, TIMEINDEX, TXNINDEX)
SEGMENT_SUFFIXES = (LOG, *INDEX_SUFFIXES)

LEADER_EPOCHS = "leader-epoch-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_DELETE_DIR = re.compile(r".+\.[0-9a-f]{32}-delete")
_MAX_FILE_NAME = 255


def file_name(offset: int, suffix: str) -> str:
    """Return the name of a segment's file, such as `00000000000000000042.log`."""
    return f"{offset:020d}{suffix}"


def offset_of_file(name: str, suffix: str) -> int | None:
    """Return the offset in a file's name, None if the file is of another kind."""
    stem = name[: -len(suffix)]
    if name.endswith(suffix) and len(stem) == 20 and stem.isascii() and stem.isdigit():
        return int(stem)
    return None


def delete_directory_name(tp: TopicPartition) -> str:
    """Return a fresh name for the directory of a deleted partition.

    A long topic name is cut so that the name stays within the file system's limit.
    """
    ending = f".{uuid.uuid4().hex}-delete"
    return str(tp)[: _MAX_FILE_NAME - len(ending)] + ending


def is_delete_directory(path: Path) -> bool:
    """Whether a directory belongs to a partition that was deleted."""
    return _DELETE_DIR.fullmatch(path.name) is not None
