"""The open files of one segment, and files that are rarely appended to.

Invariant: the files of a segment are closed when the last holder releases them, and not before: a
reader can finish after the segment was deleted or replaced.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.index import OffsetIndex, TimeIndex
from zkbroker.runtime import Lock


class SegmentFiles:
    """Open files of a segment, closed when the last holder releases them."""

    __slots__ = ("_lock", "_open_times", "_times", "fd", "fs", "holders", "offsets")

    def __init__(
        self,
        fs: FileSystem,
        lock: Lock,
        fd: int,
        offsets: OffsetIndex,
        times: TimeIndex | Callable[[], TimeIndex],
    ) -> None:
        """Take over open files; a function opens the time index at the first look-up by time."""
        self.fs = fs
        self._lock = lock
        self.fd = fd
        self.offsets = offsets
        self._times = times if isinstance(times, TimeIndex) else None
        self._open_times = times if not isinstance(times, TimeIndex) else None
        self.holders = 1
        """Number of holders; guarded by the lock."""

    @property
    def times(self) -> TimeIndex:
        """The time index."""
        if self._times is None:
            assert self._open_times is not None
            self._times = self._open_times()
        return self._times

    def replace_indexes(self, offsets: OffsetIndex) -> None:
        """Use new index files from now on."""
        self.offsets.close()
        self.offsets = offsets
        if self._open_times is not None and self._times is not None:
            self._times.close()
            self._times = None

    def release(self) -> None:
        """Release one hold."""
        with self._lock:
            self.holders -= 1
            if not self.holders:
                self._close()

    def drop(self) -> None:
        """Release one hold; the caller has the lock."""
        self.holders -= 1
        if not self.holders:
            self._close()

    def _close(self) -> None:
        self.offsets.close()
        if self._times is not None:
            self._times.close()
        self.fs.close(self.fd)


class AppendedFiles:
    """Files that are rarely appended to: the most recently used ones, up to a limit, stay open.

    The lock is held during each write, so that no file is closed meanwhile.
    """

    def __init__(self, fs: FileSystem, lock: Lock, limit: int) -> None:
        self._fs = fs
        self._lock = lock
        self._limit = limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def open(self, path: Path) -> None:
        """Open a file, which is created if it does not exist: the next `append` only writes.

        Raises:
            OSError: it cannot be opened.
        """
        with self._lock:
            self._hold(path)

    def append(self, path: Path, data: bytes) -> None:
        """Write at the end of a file, which is created if it does not exist.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            self._fs.write_all(self._hold(path), data)

    def _hold(self, path: Path) -> int:
        if path in self._open:
            self._open.move_to_end(path)
        else:
            if len(self._open) >= self._limit:
                _, oldest = self._open.popitem(last=False)
                self._fs.close(oldest)
            self._open[path] = self._fs.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return self._open[path]

    def close(self, path: Path) -> None:
        """Close a file if it is open: its path is about to name another file, or none."""
        with self._lock:
            fd = self._open.pop(path, None)
            if fd is not None:
                self._fs.close(fd)
