"""One file of a 0.7 log: the bytes of the stream from the position in its name on.

Invariant: only the last file of a log is written. A file is opened once, and stays open while it is
written or has holders; its holders can read it even after it was deleted.
"""

import os
from pathlib import Path

from zkbroker.log import names
from zkbroker.log.fs import FileSystem


class Segment07:
    """A file of a log.

    Args:
        fs: the file system.
        directory: of the log.
        start: position of its first byte in the log.
        size: its size in bytes.
    """

    __slots__ = ("_fd", "_fs", "_holders", "flushed", "path", "size", "start", "torn")

    def __init__(self, fs: FileSystem, directory: Path, start: int, size: int) -> None:
        self._fs = fs
        self.path = directory / names.file_name(start, names.KAFKA_07)
        self.start = start
        self.size = size
        self.flushed = size
        """How many of its bytes are on stable storage, and visible to readers."""
        self.torn = False
        """Whether bytes of a failed write may follow its own."""
        self._fd = -1
        self._holders = 0

    @property
    def end(self) -> int:
        """Position after its last byte."""
        return self.start + self.size

    @property
    def visible_end(self) -> int:
        """Position after its last flushed byte."""
        return self.start + self.flushed

    def modified_ms(self) -> int:
        """When it was last written, in milliseconds since 1970.

        Raises:
            OSError: the file is gone.
        """
        return self.path.stat().st_mtime_ns // 1_000_000

    def hold(self) -> int:
        """Open it if needed, and keep it open until `release`; returns the descriptor.

        Raises:
            OSError: it cannot be opened.
        """
        if self._fd < 0:
            self._fd = self._fs.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._holders += 1
        return self._fd

    def release(self) -> None:
        """Give up one hold."""
        self._holders -= 1
        if not self._holders:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)

    def append(self, data: bytes | memoryview) -> None:
        """Write at the end of a file that is held.

        Raises:
            OSError: it was not written; the file was cut back, unless `torn`.
        """
        try:
            self._fs.write_all(self._fd, data)
        except OSError:
            self.torn = True
            self._fs.truncate(self._fd, self.size)
            self.torn = False
            raise
        self.size += len(data)

    def flush(self) -> None:
        """Bring written bytes to stable storage, so that readers see them.

        Raises:
            OSError: it is unknown whether they are stable.
        """
        size = self.size
        self._fs.fsync(self._fd)
        self.flushed = size
