"""Reading a log, by offset and by time.

Invariant: a log knows nothing of who may read how far: every read is told where the visible end is.
"""

import os

from zkbroker.errors import OffsetOutOfRange
from zkbroker.log.base import BaseLog
from zkbroker.log.results import ReadResult
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.time_search import TimestampOffset
from zkbroker.log.segments.transaction_index import AbortedTransaction, select


class ReadableLog(BaseLog):
    """What is read of a log."""

    def read(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> ReadResult:
        """Return the stored bytes from the entry that holds an offset on, without copying them.

        Args:
            offset: from the log start offset to the log end offset.
            max_bytes: size of the slice at most; its last entry may be cut.
            end: where the visible part of the log ends: no entry is returned that ends at this
                offset or behind it. What was aborted before it is in the slice:
                `aborted_transactions` tells which entries are not to be read.
            min_one_entry: the first entry is whole even if it is larger than `max_bytes`; without,
                it may be cut (Fetch v0 to v2).

        Raises:
            OffsetOutOfRange: with `earliest` and `latest`.
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            start, log_end = self.log_start_offset, self.log_end_offset
            if not start <= offset <= log_end:
                raise OffsetOutOfRange(
                    f"offset {offset} of {self.topic_partition} is not in [{start}, {log_end}]",
                    earliest=start,
                    latest=log_end,
                )
            if offset >= end or offset == log_end:
                return ReadResult(None, start)
            try:
                found = self._segments.read(
                    offset,
                    max_bytes,
                    end if end < log_end else None,
                    min_one_entry=min_one_entry,
                )
            except OSError as error:
                # As `directory.storage()` does, which costs each read more than this.
                raise self.directory.fail(error) from error
            if found is None:
                return ReadResult(None, start)
            return ReadResult(found[0], start, found[1], found[2])

    def read_bytes(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> bytes:
        """Return what `read` finds as a copy; nothing has to be closed."""
        found = self.read(offset, max_bytes, end=end, min_one_entry=min_one_entry).slice
        if found is None:
            return b""
        try:
            with self.directory.storage():
                return os.pread(found.fd, found.size, found.position)
        finally:
            found.close()

    def aborted_transactions(self, offset: int, found: ReadResult) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have a part in what a read found.

        To be called before the slice is closed.

        Args:
            offset: that was read from.
            found: the answer.
        """
        if found.slice is None or found.segment is None or found.files is None:
            return []
        behind = found.slice.position + found.slice.size
        end, indexes = self._segments.aborted(
            found.segment, found.files, behind, self.log_end_offset
        )
        return list(select(indexes, offset, end))

    def offset_for_timestamp(self, timestamp: int, end: int) -> TimestampOffset | None:
        """Find the first message before `end` whose timestamp (ms) is at least the one given.

        Raises:
            UnsupportedForMessageFormat: the topic is pinned to magic 0.
            StorageError: the disk failed.
        """
        with self._lock, self.directory.storage():
            self._require_online()
            return self._segments.offset_for_timestamp(timestamp, self.log_start_offset, end)

    def segment_offsets_before(self, timestamp: int, max_count: int, end: int) -> list[int]:
        """Return starts of segments last written before a time, newest first (ListOffsets v0).

        Args:
            timestamp: ms, -1 for the latest, -2 for the earliest.
            max_count: how many at most.
            end: where the visible part of the log ends.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock, self.directory.storage():
            self._require_online()
            found = self._segments.offsets_before(timestamp, self.log_start_offset, end)
            return found[:max_count]

    def newest_ms(self, segment: Segment) -> int:
        """Return the largest timestamp of a segment, the time of its file where it has none.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock, self.directory.storage():
            self._require_online()
            return self._segments.largest_timestamp(segment)
