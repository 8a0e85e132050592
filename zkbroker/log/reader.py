"""Reads of a log: by offset, by time, and the aborted transactions in the result.

Invariant: a read works on the list of segments that it took, and keeps the files of its slice open.
Remembered look-ups are valid until the log is truncated.
"""

from bisect import bisect_right
from operator import attrgetter

from zkbroker.errors import OffsetOutOfRange, UnsupportedForMessageFormat
from zkbroker.fileslice import FileSlice
from zkbroker.log.parts import LogParts
from zkbroker.log.results import ReadResult
from zkbroker.log.segments.files import SegmentFiles
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.time_search import (
    EARLIEST,
    LATEST,
    TimestampOffset,
    first_at_or_after,
)
from zkbroker.log.segments.transaction_index import AbortedTransaction, select

_REMEMBERED = 8


class LogReader:
    """Reads one log."""

    def __init__(self, log: LogParts) -> None:
        self._log = log
        self._open_files = log.directory.open_files
        self._found: dict[int, tuple[Segment, int, tuple[int, int]]] = {}
        """Offsets of recent look-ups, each with its segment, the log's count of truncations at
        that time, and the entry found."""

    def read(self, offset: int, max_bytes: int, end: int, min_one_entry: bool) -> ReadResult:
        """See `Log.read`."""
        lock = self._log.lock
        # A free lock stays free until this greenlet waits, which it does not; a lock of threads is
        # never known to be free.
        if not getattr(lock, "depth", True):
            return self._read(offset, max_bytes, end, min_one_entry)
        with lock:
            return self._read(offset, max_bytes, end, min_one_entry)

    def _read(self, offset: int, max_bytes: int, end: int, min_one_entry: bool) -> ReadResult:
        log = self._log
        if log.gone or log.directory.offline:
            log.require_online()
        start, log_end = log.log_start_offset, log.log_end_offset
        if not start <= offset <= log_end:
            raise OffsetOutOfRange(
                f"offset {offset} of {log.topic_partition} is not in [{start}, {log_end}]",
                earliest=start,
                latest=log_end,
            )
        if offset >= end or offset == log_end:
            return ReadResult(None, start)
        segments = log.segment_list.all
        at = len(segments) - 1
        if offset < segments[at].base_offset:
            at = log.segment_list.index_of(offset)
        try:
            while at < len(segments):
                found = self._read_segment(segments[at], offset, max_bytes, end, min_one_entry)
                if found is not None:
                    return found
                at += 1
        except OSError as error:
            # Like `directory.storage()`, which would cost more for each read.
            raise log.directory.fail(error) from error
        return ReadResult(None, start)

    def _read_segment(
        self, segment: Segment, offset: int, max_bytes: int, end: int, min_one_entry: bool
    ) -> ReadResult | None:
        """Read from one segment; None if it ends before the offset."""
        log = self._log
        files = self._open_files.acquire(segment)
        held = False
        try:
            found = self._find(segment, files, offset)
            if found is None:
                return None
            position, entry_bytes = found
            stop = segment.size
            if end < log.log_end_offset and (behind := self._find(segment, files, end)) is not None:
                stop = behind[0]
                if stop <= position:
                    return ReadResult(None, log.log_start_offset)
            if min_one_entry and max_bytes < entry_bytes:
                max_bytes = entry_bytes
            size = min(max_bytes, stop - position)
            result = ReadResult(
                FileSlice(files.fd, position, size, files.release),
                log.log_start_offset,
                segment,
                files,
            )
            held = True
            return result
        finally:
            if not held:
                files.release()

    def _find(self, segment: Segment, files: SegmentFiles, offset: int) -> tuple[int, int] | None:
        """Like `Segment.find`, with a memory: readers at the log's end ask for the same offset."""
        known = self._found.get(offset)
        # Entries keep their positions until the log is truncated.
        if known is not None and known[0] is segment and known[1] == self._log.truncations:
            return known[2]
        found = segment.find(files, offset)
        if found is not None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[offset] = (segment, self._log.truncations, found)
        return found

    def aborted_transactions(self, offset: int, found: ReadResult) -> list[AbortedTransaction]:
        """See `Log.aborted_transactions`."""
        if found.slice is None or found.segment is None or found.files is None:
            return []
        segments = self._log.segment_list.all
        # Meanwhile a compaction may have joined the segment to an earlier one.
        later = bisect_right(segments, found.segment.base_offset, key=attrgetter("base_offset"))
        at = max(later - 1, 0)
        behind = found.files.offsets.offset_behind(found.slice.position + found.slice.size)
        if behind is None:
            at_end = later == len(segments)
            behind = self._log.log_end_offset if at_end else segments[later].base_offset
        return list(select((each.aborted for each in segments[at:]), offset, behind))

    def offset_for_timestamp(self, timestamp: int, end: int) -> TimestampOffset | None:
        """See `Log.offset_for_timestamp`."""
        log = self._log
        with log.lock, log.directory.storage():
            log.require_online()
            if log.config.pinned_magic == 0:
                raise UnsupportedForMessageFormat(f"{log.topic_partition} stores no timestamps")
            for segment in log.segments:
                if segment.base_offset >= end:
                    break
                with self._open_files.opened(segment) as files:
                    found = first_at_or_after(segment, files, timestamp, log.log_start_offset)
                if found is not None:
                    return found if found.offset < end else None
            return None

    def segment_offsets_before(self, timestamp: int, max_count: int, end: int) -> list[int]:
        """See `Log.segment_offsets_before`."""
        log = self._log
        with log.lock, log.directory.storage():
            log.require_online()
            start, active = log.log_start_offset, log.segments[-1]
            segments = [each for each in log.segments if each.size and each.base_offset < end]
            if not segments:
                known = timestamp in (EARLIEST, LATEST) or active.modified_ms() <= timestamp
                return [start][:max_count] if known else []
            offsets = [max(segment.base_offset, start) for segment in segments]
            if timestamp == EARLIEST:
                found = offsets[:1]
            elif timestamp == LATEST:
                found = [*offsets, end] if segments[-1] is active else offsets
            else:
                count = 0
                for index, segment in enumerate(segments, 1):
                    if segment.modified_ms() <= timestamp:
                        count = index
                found = offsets[:count]
                whole = count == len(segments) and segments[-1] is active
                if whole and timestamp >= log.directory.now_ms():
                    found = [*offsets, end]
            return found[::-1][:max_count]
