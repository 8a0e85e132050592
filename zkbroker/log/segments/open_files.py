"""How many files of segments stay open.

Invariant: at most `limit` segments are held open for the next read, and at most 64 transaction
indexes for the next aborted transaction. Segments that somebody reads, and those that are written,
are open beside them.
"""

from collections import OrderedDict
from typing import Final

from zkbroker.log.segments.files import AppendedFiles, SegmentFiles
from zkbroker.log.segments.segment import Segment
from zkbroker.runtime import Lock, Runtime

_TRANSACTION_INDEXES: Final = 64


class OpenFiles:
    """The open files of segments that are only read: the most recently used ones stay open."""

    def __init__(self, runtime: Runtime, limit: int) -> None:
        self._lock = runtime.lock()
        self.transaction_indexes = AppendedFiles(self._lock, _TRANSACTION_INDEXES)
        """Those of segments that are written."""
        self._limit = limit
        self._recent: OrderedDict[int, Segment] = OrderedDict()

    @property
    def lock(self) -> Lock:
        """Guards every count of holders."""
        return self._lock

    def acquire(self, segment: Segment) -> SegmentFiles:
        """Open a segment's files if they are not, and hold them; the caller releases them.

        Raises:
            OSError: they cannot be opened.
        """
        with self._lock:
            files = segment.files
            if files is None:
                files = segment.files = segment.open_for_read(self._lock)
                self.add(segment)
            elif id(segment) in self._recent:
                self._recent.move_to_end(id(segment))
            files.acquire()
            return files

    def add(self, segment: Segment) -> None:
        """Take over the hold that a segment has on its own open files."""
        with self._lock:
            self._recent[id(segment)] = segment
            while len(self._recent) > self._limit:
                _, oldest = self._recent.popitem(last=False)
                _drop(oldest)

    def forget(self, segment: Segment) -> None:
        """Give up the hold on a segment that leaves its log."""
        with self._lock:
            self._recent.pop(id(segment), None)
            segment.close_aborted()
            _drop(segment)


def _drop(segment: Segment) -> None:
    files, segment.files = segment.files, None
    if files is not None:
        files.release()
