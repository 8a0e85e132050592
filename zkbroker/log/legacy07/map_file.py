"""Writes the map beside the active file of a view.

Invariant: once `append` returns, its records are on stable storage.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.offset_map import (
    MapHead,
    MapRecord,
    encode_head,
    encode_record,
    map_of,
)


class MapFile:
    """The map of one file; every method may wait for the disk and raise `OSError`.

    Args:
        fs: the file system.
        kafka: path of the view's file, whose map exists.
    """

    def __init__(self, fs: FileSystem, kafka: Path) -> None:
        self._fs = fs
        self._fd = fs.open(map_of(kafka), os.O_RDWR | os.O_APPEND)

    def append(self, records: Sequence[MapRecord]) -> None:
        """Write records."""
        self._fs.write_all(self._fd, b"".join([encode_record(each) for each in records]))
        self._fs.fsync(self._fd)

    def begin(self, kafka: Path, head: MapHead) -> None:
        """Create the map of another file, and continue with that."""
        before, self._fd = self._fd, make_map(self._fs, map_of(kafka), head)
        self._fs.close(before)

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)


def make_map(fs: FileSystem, path: Path, head: MapHead) -> int:
    """Create or replace a map file, with its head on stable storage; returns the descriptor.

    Raises:
        OSError: it cannot be written.
    """
    fd = fs.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        fs.truncate(fd, 0)
        fs.write_all(fd, encode_head(head))
        fs.fsync(fd)
    except OSError:
        fs.close(fd)
        raise
    return fd
