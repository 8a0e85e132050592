"""The reading half of a log: its segments, and what is found in them.

Invariant: the list of segments is replaced, never changed, so a reader works on the list it took.
A read never copies messages, and never waits for anybody.
"""

import bisect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import OffsetOutOfRange
from zkbroker.log import timesearch, transactions
from zkbroker.log.context import LogContext
from zkbroker.log.names import TopicPartition
from zkbroker.log.results import LogState, ReadResult
from zkbroker.log.segment import Segment
from zkbroker.log.segment_files import SegmentFiles
from zkbroker.log.timesearch import TimestampOffset
from zkbroker.log.transactions import AbortedTransaction, OpenTransaction


class ReadableLog:
    """What can be asked of a log without changing it; `Log` adds the rest."""

    config: LogConfig

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        context: LogContext,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.context = context
        """The data directory it is in."""
        self._lock = context.runtime.lock()
        self.segments: tuple[Segment, ...] = tuple(state.segments)
        """Ascending, never empty; the last one is written."""
        self._bases = [segment.base_offset for segment in self.segments]
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.open_transactions: tuple[OpenTransaction, ...] = tuple(
            state.producers.open_transactions()
        )
        """Transactions that no marker has ended."""
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._gone: str | None = None

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read: the log end offset while there is one replica."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """End of what readers of committed messages may read: where an open transaction begins.

        A transaction of which nothing is left in the log holds nobody up.
        """
        if not self.open_transactions:
            return self.log_end_offset
        start = self.log_start_offset
        first = [each.first_offset for each in self.open_transactions if each.last_offset >= start]
        return max(start, min(first, default=self.log_end_offset))

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used, None when it can."""
        return self._gone or self.context.offline

    def now_ms(self) -> int:
        """Return the clock's time."""
        return self.context.now_ms()

    def add_append_listener(self, listener: Callable[[], None]) -> None:
        """Have a function called after each append, and when the log goes offline or away.

        It runs in the appender's context: it must not wait, raise, or call the log.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove_append_listener(self, listener: Callable[[], None]) -> None:
        """Undo `add_append_listener`; a listener that is not there is no error."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def notify(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()

    def set_segments(self, segments: list[Segment]) -> None:
        """Replace the list of segments."""
        with self._lock:
            self._bases = [segment.base_offset for segment in segments]
            self.segments = tuple(segments)

    def read(
        self, offset: int, max_bytes: int, *, min_one_entry: bool = True, committed: bool = False
    ) -> ReadResult:
        """Return the stored bytes from the entry that holds an offset on, without copying them.

        Args:
            offset: from the log start offset to the high watermark.
            max_bytes: size of the slice at most; its last entry may be cut.
            min_one_entry: the first entry is whole even if it is larger than `max_bytes`; without,
                it may be cut (Fetch v0 to v2).
            committed: stop at the last stable offset. What was aborted before it is in the slice:
                `aborted_transactions` tells which entries are not to be read.

        Raises:
            OffsetOutOfRange: with `earliest` and `latest`.
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        with self._lock:
            self.require_online()
            start, end = self.log_start_offset, self.log_end_offset
            if not start <= offset <= end:
                raise OffsetOutOfRange(
                    f"offset {offset} of {self.topic_partition} is not in [{start}, {end}]",
                    earliest=start,
                    latest=end,
                )
            visible = self.last_stable_offset if committed else end
            if offset >= visible:
                return ReadResult(None, end, start)
            index = max(bisect.bisect_right(self._bases, offset) - 1, 0)
            with self.context.storage():
                for segment in self.segments[index:]:
                    with self.opened(segment) as files:
                        found = segment.find(files, offset)
                        if found is None:
                            continue
                        position, entry_bytes = found
                        wanted = max(max_bytes, entry_bytes if min_one_entry else 0)
                        size = min(wanted, segment.size - position)
                        if visible < end and (stop := segment.find(files, visible)) is not None:
                            size = min(size, stop[0] - position)
                        part = segment.slice(files, position, size)
                        return ReadResult(part, end, start, segment, files)
            return ReadResult(None, end, start)

    def aborted_transactions(self, offset: int, found: ReadResult) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have a part in what a read found.

        To be called before the slice is closed.

        Args:
            offset: that was read from.
            found: the answer.
        """
        if found.slice is None or found.segment is None or found.files is None:
            return []
        segments = self.segments
        bases = [segment.base_offset for segment in segments]
        index = bisect.bisect_left(bases, found.segment.base_offset)
        end = found.files.offsets.offset_behind(found.slice.position + found.slice.size)
        if end is None:
            end = bases[index + 1] if index + 1 < len(bases) else self.log_end_offset
        indexes = (segment.aborted for segment in segments[index:])
        return list(transactions.select(indexes, offset, end))

    def uncommitted(self, offset: int) -> list[tuple[int, int]]:
        """Return the transactions at or behind an offset that were aborted or are open.

        Returns:
            Producer id and first offset of each.
        """
        found = [
            (each.producer_id, each.first_offset)
            for segment in self.segments
            for each in segment.aborted
            if each.last_offset >= offset
        ]
        return found + [(each.producer_id, each.first_offset) for each in self.open_transactions]

    def read_bytes(self, offset: int, max_bytes: int, *, min_one_entry: bool = True) -> bytes:
        """Return what `read` finds as a copy; nothing has to be closed."""
        found = self.read(offset, max_bytes, min_one_entry=min_one_entry).slice
        if found is None:
            return b""
        try:
            with self.context.storage():
                return os.pread(found.fd, found.size, found.position)
        finally:
            found.close()

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[SegmentFiles]:
        """Hold a segment's files open."""
        files = self.context.open_files.acquire(segment)
        try:
            yield files
        finally:
            files.release()

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Find the first message whose timestamp (ms) is at least the one given.

        Raises:
            UnsupportedForMessageFormat: the topic is pinned to magic 0.
            StorageError: the disk failed.
        """
        with self._lock, self.context.storage():
            self.require_online()
            return timesearch.offset_for_timestamp(self, timestamp)

    def segment_offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Return starts of segments last written before a time, newest first (ListOffsets v0).

        Args:
            timestamp: ms, -1 for the latest, -2 for the earliest.
            max_count: how many at most.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock, self.context.storage():
            self.require_online()
            return timesearch.segment_offsets_before(self, timestamp, max_count)

    def require_online(self) -> None:
        reason = self.offline
        if reason is not None:
            raise self.context.error(f"{self.topic_partition}: {reason}")
