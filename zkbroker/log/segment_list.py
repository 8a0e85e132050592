"""The segments of one log: which there are, and what is found in them.

Invariant: the list is replaced, never changed, so a reader works on the list it took; it is never
empty, ascends, and only its last segment is written. A segment that leaves it keeps its files for
those who hold them: they are renamed to `*.deleted` and removed after a delay.
"""

import bisect
import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import UnsupportedForMessageFormat
from zkbroker.fileslice import FileSlice
from zkbroker.log import names
from zkbroker.log.directory import DataDirectory
from zkbroker.log.segments.files import SegmentFiles
from zkbroker.log.segments.replacement import SegmentWriter
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.time_search import (
    EARLIEST,
    LATEST,
    TimestampOffset,
    first_at_or_after,
)
from zkbroker.log.segments.transaction_index import AbortedTransaction


class SegmentList:
    """The segments of a log. All its methods are called by one task at a time."""

    def __init__(
        self, directory: DataDirectory, path: Path, config: LogConfig, segments: list[Segment]
    ) -> None:
        """Take the segments of a log over and open the last one for writing.

        Args:
            directory: the data directory.
            path: of the log.
            config: its settings.
            segments: as they were found, ascending, at least one.

        Raises:
            OSError: the disk failed.
        """
        self._directory = directory
        self._path = path
        self._config = config
        self.all: tuple[Segment, ...] = ()
        self._bases: list[int] = []
        self._set(segments)
        self._open_for_append(self.active)

    def _set(self, segments: Sequence[Segment]) -> None:
        self._bases = [segment.base_offset for segment in segments]
        self.all = tuple(segments)

    def _open_for_append(self, segment: Segment) -> None:
        segment.open_for_append(
            self._directory.open_files.lock,
            self._directory.open_files.transaction_indexes,
            self._config.index_max_bytes,
            reserve_bytes=self._config.segment_bytes if self._config.preallocate else 0,
        )

    @property
    def active(self) -> Segment:
        """The segment that is written."""
        return self.all[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.all)

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self._config = config
        for segment in self.all:
            segment.index_interval_bytes = config.index_interval_bytes

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """Return the segments from the one that may hold an offset on."""
        return self.all[max(bisect.bisect_right(self._bases, offset) - 1, 0) :]

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[SegmentFiles]:
        """Hold a segment's files open."""
        files = self._directory.open_files.acquire(segment)
        try:
            yield files
        finally:
            files.release()

    # What is found

    def read(
        self, offset: int, max_bytes: int, end: int | None, *, min_one_entry: bool
    ) -> tuple[FileSlice, Segment, SegmentFiles] | None:
        """Return the bytes from the entry that holds an offset on, None where there is none.

        Args:
            offset: of the first message.
            max_bytes: size of the slice at most; its last entry may be cut.
            end: no entry that ends at this offset or behind it; None is the log's end.
            min_one_entry: the first entry is whole even if it is larger than `max_bytes`.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: the disk failed.
        """
        for segment in self.from_offset(offset):
            files = self._directory.open_files.acquire(segment)
            try:
                found = segment.find(files, offset)
                if found is None:
                    continue
                position, entry_bytes = found
                size = min(
                    max(max_bytes, entry_bytes if min_one_entry else 0), segment.size - position
                )
                if end is not None and (stop := segment.find(files, end)) is not None:
                    size = min(size, stop[0] - position)
                    if size <= 0 and stop[0] <= position:
                        return None
                return segment.slice(files, position, size), segment, files
            finally:
                files.release()
        return None

    def aborted(
        self, segment: Segment, files: SegmentFiles, position: int, log_end_offset: int
    ) -> tuple[int, Iterator[Sequence[AbortedTransaction]]]:
        """Return an offset behind a position, and the transaction indexes from a segment on."""
        index = bisect.bisect_left(self._bases, segment.base_offset)
        end = files.offsets.offset_behind(position)
        if end is None:
            following = self._bases[index + 1 : index + 2]
            end = following[0] if following else log_end_offset
        return end, (each.aborted for each in self.all[index:])

    def offset_for_timestamp(self, timestamp: int, start: int, end: int) -> TimestampOffset | None:
        """Find the first message in a range of offsets at or after a time.

        Raises:
            UnsupportedForMessageFormat: the topic is pinned to magic 0.
            OSError: the disk failed.
        """
        if self._config.pinned_magic == 0:
            raise UnsupportedForMessageFormat(f"{self._path.name} keeps no timestamps")
        for segment in self.all:
            if segment.base_offset >= end:
                break
            with self.opened(segment) as files:
                found = first_at_or_after(segment, files, timestamp, start)
                if found is not None:
                    return found if found.offset < end else None
        return None

    def offsets_before(self, timestamp: int, start: int, end: int) -> list[int]:
        """Return starts of segments last written before a time, newest first (ListOffsets v0).

        Args:
            timestamp: ms since 1970, `LATEST` (the end and every start) or `EARLIEST`.
            start: the log start offset.
            end: of what may be read.

        Raises:
            OSError: the disk failed.
        """
        segments = [each for each in self.all if each.size and each.base_offset < end]
        if not segments:
            return [start]
        offsets = [max(segment.base_offset, start) for segment in segments]
        if timestamp == EARLIEST:
            found = offsets[:1]
        elif timestamp == LATEST:
            found = [*offsets, end] if segments[-1] is self.active else offsets
        else:
            count = 0
            for index, segment in enumerate(segments, 1):
                if segment.path(names.LOG).stat().st_mtime_ns // 1_000_000 <= timestamp:
                    count = index
            found = offsets[:count]
            whole = count == len(segments) and segments[-1] is self.active
            if whole and timestamp >= self._directory.now_ms():
                found = [*offsets, end]
        return found[::-1]

    # Changes

    def new(self, base_offset: int) -> Segment:
        """Make a segment that is not in the list yet."""
        return Segment(
            self._directory.fs,
            self._path,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
        )

    def writer(self, base_offset: int) -> SegmentWriter:
        """Begin a segment beside the log, to take the place of others.

        Raises:
            OSError: the disk failed.
        """
        return SegmentWriter(
            self._directory.fs,
            self._path,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
            index_max_bytes=self._config.index_max_bytes,
        )

    def roll(self, base_offset: int) -> None:
        """End the active segment and begin another one.

        Raises:
            OSError: the disk failed; nothing changed.
        """
        open_files, ended = self._directory.open_files, self.active
        segment = self.new(base_offset)
        try:
            self._open_for_append(segment)
            ended.finish()
        except OSError:
            # What is appended next goes to the active segment: a file of this name would say that
            # it ends before.
            open_files.forget(segment)
            segment.unlink()
            raise
        open_files.add(ended)
        self._set([*self.all, segment])

    def drop_below(self, offset: int) -> int:
        """Take the segments that end at or before an offset out; returns how many.

        Raises:
            OSError: the disk failed.
        """
        count = self.count_below(offset)
        leaving = self.all[:count]
        if count:
            self._set(self.all[count:])
            self._retire(leaving)
        return count

    def count_below(self, offset: int) -> int:
        """Return how many segments end at or before an offset, never all of them."""
        return max(bisect.bisect_right(self._bases, offset) - 1, 0)

    def truncate_to(self, offset: int) -> int:
        """Cut off every entry that ends at an offset or behind it.

        Returns:
            The log's new end: `offset`, or where the entry that held it began.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: the disk failed.
        """
        count = max(bisect.bisect_right(self._bases, offset), 1)
        # A segment that would begin at the end is not needed, except as the only one.
        if count > 1 and self._bases[count - 1] == offset:
            count -= 1
        leaving = self.all[count:]
        if leaving:
            self._set(self.all[:count])
            # From the newest on, so that a crash leaves no hole.
            self._retire(leaving[::-1])
            # Nobody may be reading through indexes that are written from now on.
            self._directory.open_files.forget(self.active)
            self._open_for_append(self.active)
        with self.opened(self.active) as files:
            return self.active.truncate_to(files, offset)

    def restart_at(self, offset: int) -> None:
        """Drop every segment and begin with an empty one.

        Raises:
            OSError: the disk failed.
        """
        self._retire(self.all[::-1])
        self._set([self.new(offset)])
        self._open_for_append(self.active)

    def put(self, start: int, end: int, segments: list[Segment]) -> None:
        """Have other segments in the place of those that begin in `[start, end)`.

        The files have their names already; those of the old segments are removed after a delay.
        """
        old = [each for each in self.all if start <= each.base_offset < end]
        before = [each for each in self.all if each.base_offset < start]
        after = [each for each in self.all if each.base_offset >= end]
        self._set([*before, *segments, *after])
        due = self._directory.now_ms() + self._config.file_delete_delay_ms
        for segment in old:
            self._directory.open_files.forget(segment)
            segment.suffix = names.DELETED
            for suffix in names.SEGMENT_SUFFIXES:
                self._directory.discard(segment.path(suffix), due)

    def _retire(self, segments: Sequence[Segment]) -> None:
        due = self._directory.now_ms() + self._config.file_delete_delay_ms
        for segment in segments:
            self._directory.open_files.forget(segment)
            for suffix in names.SEGMENT_SUFFIXES:
                path = segment.path(suffix)
                doomed = path.with_name(path.name + names.DELETED)
                with contextlib.suppress(FileNotFoundError):
                    self._directory.fs.rename(path, doomed)
                    self._directory.discard(doomed, due)
            segment.suffix = names.DELETED

    def release_files(self) -> None:
        """Close every file that no reader holds."""
        for segment in self.all:
            self._directory.open_files.forget(segment)

    def largest_timestamp(self, segment: Segment) -> int:
        """Return the largest timestamp (ms) of a segment, the time of its file where it has none.

        Raises:
            OSError: the disk failed.
        """
        with self.opened(segment) as files:
            newest, _ = segment.largest_timestamp(files)
        if newest < 0:
            newest = segment.path(names.LOG).stat().st_mtime_ns // 1_000_000
        return newest
