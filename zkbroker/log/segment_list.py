"""The segments of one log.

Invariant: the list is replaced, never changed, so a reader works on the list that it took. The list
is never empty and ascends; only its last segment is written. The files of a segment that leaves the
list are renamed to `*.deleted` and removed after a delay; its readers go on meanwhile.
"""

import bisect
import contextlib
from collections.abc import Sequence
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.log import names
from zkbroker.log.directory import DataDirectory
from zkbroker.log.segments.segment import Segment


class SegmentList:
    """The segments of a log. One task at a time calls its methods."""

    def __init__(
        self, directory: DataDirectory, path: Path, config: LogConfig, segments: list[Segment]
    ) -> None:
        """Open the last of the segments, which ascend, for writing.

        Raises:
            OSError: the disk failed.
        """
        self._directory = directory
        self._path = path
        self._config = config
        self._set(segments)
        self._open_for_append(self.active, directory.now_ms())

    def _set(self, segments: Sequence[Segment]) -> None:
        self._bases = [segment.base_offset for segment in segments]
        self.all = tuple(segments)
        """The segments, ascending, never empty."""
        self.active = self.all[-1]
        """The segment that is being written."""

    def _open_for_append(self, segment: Segment, created_ms: int) -> None:
        segment.created_ms = created_ms
        segment.open_for_append(
            self._directory.open_files.lock,
            self._directory.open_files.transaction_indexes,
            self._config.index_max_bytes,
            reserve_bytes=self._config.segment_bytes if self._config.preallocate else 0,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.all)

    def configure(self, config: LogConfig) -> None:
        """Use new settings from now on."""
        self._config = config
        for segment in self.all:
            segment.index_interval_bytes = config.index_interval_bytes

    def index_of(self, offset: int) -> int:
        """Return the index of the segment that may hold an offset: how many end at or before it."""
        return max(bisect.bisect_right(self._bases, offset) - 1, 0)

    def neighbours(self, segments: Sequence[Segment]) -> tuple[int, int]:
        """Return the offsets [start, end) that neighbouring closed segments cover.

        Raises:
            ValueError: they are not neighbours in this list, or one of them is active.
        """
        at = self.all.index(segments[0]) if segments and segments[0] in self.all else -1
        behind = at + len(segments)
        if at < 0 or self.all[at:behind] != tuple(segments) or segments[-1] is self.active:
            raise ValueError(f"not closed neighbouring segments in the log of {self._path.name}")
        return segments[0].base_offset, self.all[behind].base_offset

    def largest_timestamp(self, segment: Segment) -> int:
        """Return the largest timestamp (ms) of a segment, the time of its file if it has none.

        Raises:
            OSError: the disk failed.
        """
        with self._directory.open_files.opened(segment) as files:
            newest = segment.largest_timestamp(files)
        return newest if newest >= 0 else segment.modified_ms()

    # Changes

    def new(self, base_offset: int) -> Segment:
        """Return a new segment, not in the list yet."""
        return Segment(
            self._directory.fs,
            self._path,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
        )

    def roll(self, base_offset: int, now_ms: int | None = None) -> Segment:
        """Close the active segment and begin another one.

        Raises:
            OSError: the disk failed; nothing changed.
        """
        open_files, ended = self._directory.open_files, self.active
        segment = self.new(base_offset)
        try:
            self._open_for_append(segment, self._directory.now_ms() if now_ms is None else now_ms)
            ended.finish()
        except OSError:
            # The active segment stays: a file of this name would mean that it ends here.
            open_files.forget(segment)
            segment.unlink()
            raise
        open_files.add(ended)
        self._set([*self.all, segment])
        return segment

    def drop_below(self, offset: int) -> int:
        """Remove the segments that end at or before an offset, never the last; returns how many.

        Raises:
            OSError: the disk failed.
        """
        count = self.index_of(offset)
        leaving = self.all[:count]
        if count:
            self._set(self.all[count:])
            self._retire(leaving)
        return count

    def _kept_by(self, offset: int) -> int:
        count = max(bisect.bisect_right(self._bases, offset), 1)
        # A segment that would begin at the new end is only needed if it is the only one.
        return count - 1 if count > 1 and self._bases[count - 1] == offset else count

    def check_cut(self, offset: int) -> None:
        """Look up where `truncate_to` cuts: an error shows before anything is removed.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: the files cannot be opened or read.
        """
        segment = self.all[self._kept_by(offset) - 1]
        with self._directory.open_files.opened(segment) as files:
            segment.find(files, offset)

    def truncate_to(self, offset: int) -> int:
        """Cut off every entry that ends at or after an offset.

        Returns:
            The log's new end: `offset`, or the start of the entry that held it.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: the disk failed.
        """
        count, created_ms = self._kept_by(offset), self.active.created_ms
        leaving = self.all[count:]
        if leaving:
            self._set(self.all[:count])
            # The newest first, so that a crash leaves no gap.
            self._retire(leaving[::-1])
            # Later readers must not use the open indexes: they are written from now on.
            self._directory.open_files.forget(self.active)
            self._open_for_append(self.active, created_ms)
        with self._directory.open_files.opened(self.active) as files:
            return self.active.truncate_to(files, offset)

    def restart_at(self, offset: int) -> None:
        """Drop every segment and begin with an empty one.

        Raises:
            OSError: the disk failed.
        """
        self._retire(self.all[::-1])
        self._set([self.new(offset)])
        self._open_for_append(self.active, self._directory.now_ms())

    def put(self, start: int, end: int, segments: list[Segment]) -> None:
        """Replace the segments that begin in `[start, end)`.

        The new files already have their names; the old ones are removed after a delay.
        """
        old = [each for each in self.all if start <= each.base_offset < end]
        before = [each for each in self.all if each.base_offset < start]
        after = [each for each in self.all if each.base_offset >= end]
        for segment in segments:
            segment.suffix = ""
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
        """Give up the holds on all files; a file closes when its last reader releases it."""
        for segment in self.all:
            self._directory.open_files.forget(segment)
