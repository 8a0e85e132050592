"""Opens the folder of one 0.7 log, and finds the valid part of its last file.

After a clean stop nothing is read. Otherwise the last file is walked and cut at the first entry
that is incomplete, impossible or has a wrong CRC, as a genuine 0.7 broker does. Messages inside
wrappers are not checked.

Invariant: no byte is thrown away: cut bytes are saved in `<file>.corrupt-<ms>` before the file is
cut. (A genuine 0.7 broker warns of such a file and starts.)
"""

import itertools
import mmap
import os
from pathlib import Path
from typing import NamedTuple

from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.log.recovery.scan import Cut, copy_tail, free_name
from zkbroker.records.legacy07 import read_entry

_SEARCHED_BYTES = 1024 * 1024


class Scan07(NamedTuple):
    """The result of a walk through a file: `reason` tells why it ended early; None at the end."""

    valid_bytes: int
    entries: int
    size: int
    reason: str | None
    valid_behind: int


def load_segments(fs: FileSystem, directory: Path) -> tuple[list[Segment07], list[str]]:
    """Return the files of a log in order, and the other names in its folder.

    Raises:
        StorageError: there is a gap between two files.
        OSError: the disk failed.
    """
    segments: list[Segment07] = []
    unknown: list[str] = []
    with os.scandir(directory) as listing:
        for item in listing:
            start = names.offset_of_file(item.name, names.KAFKA_07)
            if start is None:
                unknown.append(item.name)
            else:
                segments.append(Segment07(fs, directory, start, item.stat().st_size))
    segments.sort(key=lambda segment: segment.start)
    for before, after in itertools.pairwise(segments):
        if before.end != after.start:
            raise StorageError(
                f"{after.path} begins at {after.start}, and the file before it ends at "
                f"{before.end}: a file was lost or changed. Bring it back from a copy, or move the "
                "files before the gap away"
            )
    return segments, unknown


def recover(fs: FileSystem, segment: Segment07, now_ms: int) -> Cut | None:
    """Cut a file to its valid part and put the rest aside.

    Args:
        fs: the file system.
        segment: the last of its log, not open.
        now_ms: part of the name of the file that keeps the cut bytes.

    Returns:
        The cut, None if the whole file was valid.

    Raises:
        OSError: the disk failed.
    """
    scan = scan_file(segment.path)
    if scan.reason is None:
        # The bytes may only be in the page cache, and readers are to see them.
        _sync(fs, segment.path, None)
        return None
    kept = free_name(segment.path, now_ms)
    copy_tail(fs, segment.path, scan.valid_bytes, kept)
    fs.fsync_dir(segment.path.parent)
    _sync(fs, segment.path, scan.valid_bytes)
    segment.size = segment.flushed = scan.valid_bytes
    return Cut(
        segment.path,
        scan.valid_bytes,
        segment.end,
        scan.reason,
        scan.size - scan.valid_bytes,
        scan.valid_behind,
        kept,
    )


def scan_file(path: Path) -> Scan07:
    """Walk through a file to its first bad entry.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return Scan07(0, 0, 0, None, 0)
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            return _scan(data)


def _scan(data: memoryview) -> Scan07:
    position = count = 0
    reason: str | None = None
    while position < len(data):
        size, reason = _look(data, position)
        if reason is not None:
            break
        position += size
        count += 1
    behind = 0 if reason is None else _valid_behind(data, position)
    return Scan07(position, count, len(data), reason, behind)


def _look(data: memoryview, position: int) -> tuple[int, str | None]:
    """Return the size of the entry at a position, and why it is invalid (None if it is valid)."""
    try:
        entry = read_entry(data, position)
    except CorruptMessage as error:
        return 0, str(error)
    if entry is None:
        return 0, "the entry is not whole"
    with entry.payload:
        return entry.size, None if entry.valid else "the CRC does not match"


def _valid_behind(data: memoryview, position: int) -> int:
    """Count entries after a bad one that are valid by themselves, wherever they begin."""
    count = 0
    searched = 0
    position += 1
    while position < len(data) and searched < _SEARCHED_BYTES:
        size, reason = _look(data, position)
        if reason is None:
            count += 1
            position += size
        else:
            position += 1
            searched += 1
    return count


def _sync(fs: FileSystem, path: Path, size: int | None) -> None:
    fd = fs.open(path, os.O_RDWR)
    try:
        if size is not None:
            fs.truncate(fd, size)
        fs.fsync(fd)
    finally:
        fs.close(fd)
