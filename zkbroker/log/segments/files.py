"""The open files of one segment.

Invariant: they are closed when the last holder gives them up, and not before: whoever reads them
goes on reading after the segment was deleted or replaced.
"""

from collections.abc import Callable

from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.index import OffsetIndex, TimeIndex
from zkbroker.runtime import Lock


class SegmentFiles:
    """Open files of a segment, closed when the last holder releases them."""

    __slots__ = ("_lock", "_open_times", "_refs", "_times", "fd", "fs", "offsets")

    def __init__(
        self,
        fs: FileSystem,
        lock: Lock,
        fd: int,
        offsets: OffsetIndex,
        times: TimeIndex | Callable[[], TimeIndex],
    ) -> None:
        """Take over open files.

        Args:
            fs: the file system.
            lock: guards the count of holders.
            fd: of the log file.
            offsets: the offset index.
            times: the time index, or what opens it when somebody looks by time.
        """
        self.fs = fs
        self._lock = lock
        self.fd = fd
        self.offsets = offsets
        self._times = times if isinstance(times, TimeIndex) else None
        self._open_times = times if not isinstance(times, TimeIndex) else None
        self._refs = 1

    @property
    def times(self) -> TimeIndex:
        """The time index."""
        if self._times is None:
            assert self._open_times is not None
            self._times = self._open_times()
        return self._times

    def replace_indexes(self, offsets: OffsetIndex) -> None:
        """Use other index files from now on."""
        self.offsets.close()
        self.offsets = offsets
        if self._open_times is not None and self._times is not None:
            self._times.close()
            self._times = None

    def acquire(self) -> None:
        """Hold the files open until one more `release`."""
        with self._lock:
            self._refs += 1

    def release(self) -> None:
        """Give up one hold."""
        with self._lock:
            self._refs -= 1
            if self._refs:
                return
        self.offsets.close()
        if self._times is not None:
            self._times.close()
        self.fs.close(self.fd)
