"""One 0.7 log: a stream of bytes in files, appended to, flushed, read by position.

    start of first file ... start of last file ... visible end ... end
                                                   flushed ^       ^ written

Invariants: a position keeps its meaning for ever: it is never given to other bytes, and a log whose
files were all deleted continues at its end. Readers see flushed bytes only; a file is flushed as a
whole before the next one begins. After a failed flush nothing more is appended, since it is unknown
how many bytes are on the disk.
"""

import contextlib
import logging
import os
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from zkbroker.config.legacy07 import Log07Settings
from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.fileslice import FileSlice
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2
_WRITTEN_AT_ONCE_BYTES = 1024 * 1024


class Legacy07Log:
    """A log that is open for appends.

    Args:
        fs: the file system.
        directory: its folder.
        segments: its files in order, at least one.
        settings: of the log.
        runtime: runs the calls that wait for the disk.
        now_ms: wall clock in milliseconds.

    Raises:
        OSError: a file cannot be opened.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        segments: list[Segment07],
        settings: Log07Settings,
        runtime: Runtime,
        now_ms: Callable[[], int],
    ) -> None:
        self.directory = directory
        self.settings = settings
        self._fs = fs
        self._runtime = runtime
        self._now_ms = now_ms
        self._lock = runtime.lock()
        self._segments = segments
        self._active = segments[-1]
        self._active.hold()
        self._first_append_ms: int | None = None
        self._unflushed = 0
        self._flushed_ms = now_ms()
        self._failure: str | None = None
        self._closed = False

    @property
    def start(self) -> int:
        """Position of its first byte."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        """Position after its last byte."""
        return self._active.end

    @property
    def visible_end(self) -> int:
        """Position after the last byte that readers see."""
        return self._active.visible_end

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.end - self.start

    @property
    def files(self) -> list[Path]:
        """Its files, oldest first."""
        return [segment.path for segment in self._segments]

    @property
    def failed(self) -> bool:
        """Whether the disk failed, so that the log accepts no more appends."""
        return self._failure is not None

    def append(self, data: bytes | memoryview, messages: int) -> int:
        """Append a checked set unchanged.

        Args:
            data: whole entries.
            messages: number of messages in them, for the flush interval.

        Returns:
            The position of its first byte.

        Raises:
            StorageError: it was not stored.
        """
        with self._lock:
            self._require_working()
            position = self._write(data)
            self._count(messages)
            return position

    def flush(self) -> None:
        """Bring appended bytes to stable storage, and make them visible to readers.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_working()
            self._flush()

    def flush_if_due(self) -> None:
        """Flush if the last flush is too long ago.

        Raises:
            StorageError: the disk failed.
        """
        if self._now_ms() - self._flushed_ms >= self.settings.flush_ms and not self.failed:
            self.flush()

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Return bytes from a position on, None at the visible end.

        Args:
            offset: the position; it need not be that of an entry.
            max_bytes: how many at most; the slice also ends at the end of its file.

        Raises:
            OffsetOutOfRange: before the first file or past the visible end.
            OSError: the file cannot be opened.
        """
        if not self.start <= offset <= self.visible_end:
            raise OffsetOutOfRange(
                f"position {offset} of {self.directory.name}: it has positions {self.start} to "
                f"{self.visible_end}",
                earliest=self.start,
                latest=self.visible_end,
            )
        size = min(max_bytes, self.visible_end - offset)
        if size <= 0:
            return None
        segments = self._segments
        segment = segments[bisect_right(segments, offset, key=attrgetter("start")) - 1]
        size = min(size, segment.visible_end - offset)
        return FileSlice(segment.hold(), offset - segment.start, size, segment.release)

    def offsets(self, time_ms: int, count: int) -> list[int]:
        """Return positions at which a reader may begin, newest first.

        A file's start has the time of its last append, the visible end has the present time.

        Args:
            time_ms: LATEST for all, EARLIEST for only the first, or the newest time wanted.
            count: the largest number to return.

        Raises:
            OSError: the time of a file cannot be read.
        """
        known = [(segment.start, segment.modified_ms()) for segment in self._segments]
        if self._active.size:
            known.append((self.visible_end, self._now_ms()))
        if time_ms == EARLIEST:
            known = known[:1]
        elif time_ms != LATEST:
            while known and known[-1][1] > time_ms:
                known.pop()
        return [start for start, _ in reversed(known)][:count]

    def delete_expired(self) -> int:
        """Delete the oldest files that exceed a limit; returns how many.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            if self.failed or self._closed:
                return 0
            try:
                count = self._expired()
                if count == len(self._segments):
                    if not self._active.size:
                        # An empty file is kept: its name says where the log continues.
                        count -= 1
                    else:
                        self._roll()
                for segment in self._segments[:count]:
                    self._unlink(segment)
                    # Before any wait: a reader would open the deleted file, and so create it again.
                    self._segments = self._segments[1:]
                    # One by one: a power cut must not leave a gap.
                    self._runtime.offload(self._fs.fsync_dir, self.directory)
                    logger.info("0.7 file deleted path=%s bytes=%d", segment.path, segment.size)
            except OSError as error:
                raise StorageError(f"{self.directory}: files not deleted: {error}") from error
            return count

    def close(self) -> None:
        """Flush and close.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if not self.failed:
                    self._flush()
            finally:
                self._active.release()

    def _write(self, data: bytes | memoryview) -> int:
        """Write at the end, in a new file if one is due; returns the position."""
        try:
            self._roll_if_due()
            position = self.end
            if len(data) > _WRITTEN_AT_ONCE_BYTES:
                self._runtime.offload(self._active.append, data)
            else:
                self._active.append(data)
        except OSError as error:
            if self._active.torn:
                self._failure = f"{self._active.path} could not be cut back: {error}"
                logger.exception("0.7 log failed path=%s", self._active.path)
            raise StorageError(f"{self._active.path} cannot be written: {error}") from error
        if self._first_append_ms is None:
            self._first_append_ms = self._now_ms()
        return position

    def _count(self, messages: int) -> None:
        """Count appended messages, and flush if their number makes a flush due."""
        self._unflushed += messages
        if self._unflushed >= self.settings.flush_messages:
            self._flush()

    def _expired(self) -> int:
        """Return how many of the oldest files exceed the retention time or size."""
        settings = self.settings
        now = self._now_ms()
        by_time = 0
        for segment in self._segments if settings.retention_ms >= 0 else ():
            if now - segment.modified_ms() <= settings.retention_ms:
                break
            by_time += 1
        by_size = 0
        if settings.retention_bytes >= 0:
            left = self.size
            for segment in self._segments:
                if left - segment.size < settings.retention_bytes or not segment.size:
                    break
                left -= segment.size
                by_size += 1
        return max(by_time, by_size)

    def _roll_if_due(self) -> None:
        first = self._first_append_ms
        old = first is not None and self._now_ms() - first > self.settings.roll_ms
        if self._active.size > self.settings.file_bytes or (old and self._active.size):
            self._roll()

    def _roll(self) -> None:
        self._flush()
        following = Segment07(self._fs, self.directory, self.end, 0)
        with contextlib.suppress(FileNotFoundError):
            # A failed roll may have left the file; it holds no acknowledged message.
            self._fs.unlink(following.path)
        following.hold()
        try:
            self._runtime.offload(self._fs.fsync_dir, self.directory)
            # Last, since it also changes which companion is written.
            self._create_companion(following)
        except OSError:
            following.release()
            # The present file may grow beyond the start of that one.
            with contextlib.suppress(OSError):
                self._fs.unlink(following.path)
            raise
        # One assignment each, because readers use the list without the lock.
        before, self._active = self._active, following
        self._segments = [*self._segments, following]
        before.release()
        self._first_append_ms = None
        logger.debug("0.7 log rolled path=%s", following.path)

    def _create_companion(self, segment: Segment07) -> None:
        """Create the files that belong to a new one; raises OSError."""

    def _unlink(self, segment: Segment07) -> None:
        self._fs.unlink(segment.path)

    def _flush(self) -> None:
        if self._active.flushed != self._active.size:
            try:
                self._runtime.offload(self._active.flush)
            except OSError as error:
                self._failure = f"{self._active.path} could not be flushed: {error}"
                logger.exception("0.7 log failed path=%s", self._active.path)
                raise StorageError(self._failure) from error
        self._unflushed = 0
        self._flushed_ms = self._now_ms()

    def _require_working(self) -> None:
        if self._closed:
            raise StorageError(f"{self.directory} is closed")
        if self._failure is not None:
            raise StorageError(f"{self._failure}; repair the disk and restart the broker")


def is_log_folder(directory: Path) -> bool:
    """Whether a folder holds files of a 0.7 log."""
    with os.scandir(directory) as listing:
        return any(names.offset_of_file(item.name, names.KAFKA_07) is not None for item in listing)
