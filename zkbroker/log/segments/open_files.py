"""The files of segments that stay open between two uses.

Invariant: at most `limit` segments are held open for the next read, and at most 64 transaction
indexes for the next aborted transaction; segments that are being read or written are open as well.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.files import AppendedFiles, SegmentFiles
from zkbroker.log.segments.segment import Segment
from zkbroker.runtime import Runtime

_TRANSACTION_INDEXES: Final = 64


class OpenFiles:
    """The open files of closed segments: the most recently used ones stay open."""

    def __init__(self, runtime: Runtime, fs: FileSystem, limit: int) -> None:
        self.lock = runtime.guard()
        """Guards every count of holders."""
        self.transaction_indexes = AppendedFiles(fs, runtime.guard(), _TRANSACTION_INDEXES)
        """The transaction indexes of segments that are written."""
        self._limit = limit
        self._recent: OrderedDict[int, Segment] = OrderedDict()

    def acquire(self, segment: Segment) -> SegmentFiles:
        """Open a segment's files if needed, and hold them; the caller releases them.

        Raises:
            OSError: they cannot be opened.
        """
        with self.lock:
            files = segment.files
            if files is None:
                files = segment.files = segment.open_for_read(self.lock)
                self._add(segment)
            elif id(segment) in self._recent:
                self._recent.move_to_end(id(segment))
            files.holders += 1
            return files

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[SegmentFiles]:
        """Hold a segment's files open."""
        files = self.acquire(segment)
        try:
            yield files
        finally:
            files.release()

    def add(self, segment: Segment) -> None:
        """Take over the hold that a segment has on its own open files."""
        with self.lock:
            self._add(segment)

    def _add(self, segment: Segment) -> None:
        self._recent[id(segment)] = segment
        while len(self._recent) > self._limit:
            _, oldest = self._recent.popitem(last=False)
            _drop(oldest)

    def forget(self, segment: Segment) -> None:
        """Release the hold on a segment that leaves its log."""
        segment.close_aborted()
        with self.lock:
            self._recent.pop(id(segment), None)
            _drop(segment)


def _drop(segment: Segment) -> None:
    """Release a segment's own hold on its files; the caller has the lock."""
    files, segment.files = segment.files, None
    if files is not None:
        files.drop()
