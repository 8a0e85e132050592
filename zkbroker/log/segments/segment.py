"""One segment: a log file with its two indexes.

Invariant: every message in a segment has an offset of at least its base offset, which names its
files, and offsets grow. Only `size` bytes of the file count; bytes after them are not yet, or no
longer, part of the log. The files of a closed segment are opened to be read and stay open while a
reader holds them, even after they were deleted.
"""

import contextlib
import logging
import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from zkbroker.errors import CorruptMessage
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.entries import find_entry, first_offset, first_timestamp, traits, walk
from zkbroker.log.segments.files import AppendedFiles, SegmentFiles
from zkbroker.log.segments.index import Index, OffsetIndex, TimeIndex
from zkbroker.log.segments.indexing import Indexer, has_timestamps, new_indexes
from zkbroker.log.segments.transaction_index import AbortedTransaction, encode_index
from zkbroker.records import PreparedSet
from zkbroker.runtime import Lock

logger = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET = 2**31 - 1


class Segment:
    """A segment of a log. One task at a time calls its methods."""

    def __init__(
        self, fs: FileSystem, directory: Path, base_offset: int, *, index_interval_bytes: int
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.size = 0
        self.created_ms = 0
        """When the active segment was begun, by the broker's clock."""
        self.index_interval_bytes = index_interval_bytes
        self.first_timestamp = -1
        """The segment's age counts from this timestamp (ms), -1 for none.

        It is the largest one of the first append; after a restart that of the first message.
        """
        self.files: SegmentFiles | None = None
        self.index_full = False
        """Whether an index of the active segment has no room left."""
        self.aborted: list[AbortedTransaction] = []
        """Transactions whose ABORT marker is in this segment, ascending by marker.

        The list is appended to, or replaced: a reader must take it once.
        """
        self._transaction_indexes: AppendedFiles | None = None
        self.suffix = ""
        """Suffix of the file names while the segment is not, or no longer, in the log."""
        self._max_timestamp: int | None = None
        self._offset_of_max = base_offset
        self._unindexed_bytes = 0
        self._reserved = False
        self._traits: tuple[int, int, int, int] = (0, 0, -1, 0)

    def path(self, suffix: str) -> Path:
        """Return the path of one of the segment's files."""
        return self.directory / (names.file_name(self.base_offset, suffix) + self.suffix)

    def unlink(self, suffixes: tuple[str, ...] = names.SEGMENT_SUFFIXES) -> None:
        """Remove the segment's files of some kinds; missing ones are no error.

        Raises:
            OSError: a file cannot be removed.
        """
        for suffix in suffixes:
            with contextlib.suppress(FileNotFoundError):
                self.fs.unlink(self.path(suffix))

    def open_index(self, kind: type[Index], max_bytes: int | None = None) -> Index:
        """Open an index: to write it, with a pre-allocated size, or read-only.

        Raises:
            OSError: the file cannot be opened.
        """
        return kind(self.fs, self.path(kind.suffix), self.base_offset, max_bytes=max_bytes)

    # Writing

    def open_for_append(
        self,
        lock: Lock,
        transaction_indexes: AppendedFiles,
        index_max_bytes: int,
        *,
        reserve_bytes: int = 0,
    ) -> None:
        """Open the files for writing, and create missing ones.

        Args:
            lock: guards the count of the files' holders.
            transaction_indexes: writes the segment's transaction index.
            index_max_bytes: pre-allocated size of an index.
            reserve_bytes: disk space to reserve for the log file.

        Raises:
            OSError: one of them cannot be opened.
        """
        complete = self.path(names.INDEX).exists() and self.path(names.TIMEINDEX).exists()
        fd = self.fs.open(self.path(names.LOG), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with contextlib.ExitStack() as opened:
            opened.callback(self.fs.close, fd)
            if reserve_bytes > self.size:
                self.fs.reserve(fd, reserve_bytes)
            offsets = opened.enter_context(closing(self.open_index(OffsetIndex, index_max_bytes)))
            times = self.open_index(TimeIndex, index_max_bytes)
            opened.pop_all()
        self.files = SegmentFiles(self.fs, lock, fd, offsets, times)
        self._transaction_indexes = transaction_indexes
        self._reserved = reserve_bytes > self.size
        if self.size and (not complete or (not times.count and has_timestamps(fd, self.size))):
            self._fill_indexes(fd, offsets, times)
        if self.first_timestamp < 0:
            self.first_timestamp = first_timestamp(fd)
        if self._max_timestamp is None and self.size:
            self.note_timestamps(*(times.last_entry or (-1, self.base_offset)))
        self.index_full = offsets.full or times.full
        last = offsets.last_entry
        self._unindexed_bytes = self.size - (last[1] if last else 0)

    def must_roll(
        self, prepared: PreparedSet, size: int, now_ms: int, segment_bytes: int, roll_ms: int
    ) -> bool:
        """Whether a set belongs in the next segment.

        Args:
            prepared: the set.
            size: of the set in bytes.
            now_ms: the broker's clock.
            segment_bytes: largest size of a segment.
            roll_ms: largest age of a segment, by the timestamps of its messages if they have any.
        """
        if not self.size:
            return False
        if self.first_timestamp >= 0 and prepared.max_timestamp >= 0:
            age_ms = prepared.max_timestamp - self.first_timestamp
        else:
            age_ms = now_ms - self.created_ms
        return (
            self.size + size > segment_bytes
            or age_ms > roll_ms
            or self.index_full
            or prepared.last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        )

    def append(self, prepared: PreparedSet, size: int, *, fetch_since: int) -> None:
        """Write one message set at the end, with a single system call as a rule.

        Args:
            prepared: the set, with its offsets.
            size: of the set in bytes.
            fetch_since: lowest version of Fetch that may carry its codecs.

        Raises:
            OSError: it could not be written; the file was cut back to its former size if
                possible.
        """
        files = self.files
        assert files is not None
        try:
            written = self.fs.write(files.fd, prepared.data)
            if written != size:
                self.fs.write_all(files.fd, memoryview(prepared.data)[written:])
        except OSError:
            self.fs.truncate(files.fd, self.size)
            raise
        position = self.size
        self.size = position + size
        timestamp, known = prepared.max_timestamp, self._max_timestamp
        if known is None or timestamp > known:
            self._max_timestamp = known = timestamp
            self._offset_of_max = prepared.offset_of_max_timestamp
        if self.first_timestamp < 0:
            self.first_timestamp = timestamp
        start, end, known_magic, known_since = self._traits
        if end == position:
            # The known traits cover the whole file, so they are kept up to date with each append.
            magic = prepared.max_magic
            if magic < known_magic:
                magic = known_magic
            if fetch_since < known_since:
                fetch_since = known_since
            self._traits = (start, self.size, magic, fetch_since)
        if self._unindexed_bytes > self.index_interval_bytes:
            files.offsets.append(prepared.last_offset, position)
            files.times.append(known, self._offset_of_max)
            self.index_full = files.offsets.full or files.times.full
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose ABORT marker was just written.

        Raises:
            OSError: the index could not be written.
        """
        assert self._transaction_indexes is not None
        self.aborted.append(transaction)
        self._transaction_indexes.append(self.path(names.TXNINDEX), encode_index([transaction]))

    def truncate_to(self, files: SegmentFiles, offset: int) -> int:
        """Cut off every entry of the active segment that ends at or after an offset.

        Returns:
            The offset after the rest: `offset`, or the start of the entry that held it.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: the disk failed.
        """
        found = self.find(files, offset)
        if found is None:
            return offset
        position, size = found
        end = min(offset, first_offset(os.pread(files.fd, size, position)))
        files.offsets.truncate_to(position)
        files.times.truncate_to(end)
        self.fs.truncate(files.fd, position)
        self.fs.fsync(files.fd)
        self.size = position
        self._traits = (0, 0, -1, 0)
        last = files.offsets.last_entry
        self._unindexed_bytes = position - (last[1] if last else 0)
        self.index_full = files.offsets.full or files.times.full
        largest, at = files.times.last_entry or (-1, self.base_offset)
        for _, info in walk(files.fd, last[1] if last else 0, position):
            if info.max_timestamp > largest:
                largest, at = info.max_timestamp, info.last_offset
        self.note_timestamps(largest, at)
        if not position:
            self.first_timestamp = -1
        kept = [each for each in self.aborted if each.last_offset < end]
        if len(kept) < len(self.aborted):
            self.set_aborted(kept)
        return end

    def set_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Set the segment's transaction index; without entries there is no file.

        Raises:
            OSError: the disk failed.
        """
        self.aborted = list(transactions)
        self.close_aborted()
        if self.aborted:
            index = encode_index(self.aborted)
            self.fs.write_file(self.path(names.TXNINDEX), index, durable=False, whole=False)
        else:
            self.unlink((names.TXNINDEX,))

    def close_aborted(self) -> None:
        """Close the transaction index if it is open."""
        if self._transaction_indexes is not None:
            self._transaction_indexes.close(self.path(names.TXNINDEX))

    def _fill_indexes(self, fd: int, offsets: OffsetIndex, times: TimeIndex) -> None:
        offsets.clear()
        times.clear()
        Indexer(self, offsets, times).fill(fd)

    def _rebuild_indexes(self, fd: int, reason: str) -> None:
        logger.warning("index rebuilt file=%s reason=%s", self.path(names.INDEX), reason)
        with new_indexes(self) as indexer:
            indexer.fill(fd)
            indexer.finish()

    def note_timestamps(self, largest: int, offset: int) -> None:
        """Set the largest timestamp (ms, -1 for none) and an offset at which it was reached."""
        self._max_timestamp, self._offset_of_max = largest, offset

    def finish(self) -> None:
        """End the writing: index the largest timestamp and trim the indexes."""
        files = self.files
        assert files is not None
        if self._max_timestamp is not None:
            files.times.append(self._max_timestamp, self._offset_of_max)
        files.offsets.trim()
        files.times.trim()
        self.close_aborted()
        if self._reserved:
            self.fs.truncate(files.fd, self.size)
            self._reserved = False

    # Reading

    def open_for_read(self, lock: Lock) -> SegmentFiles:
        """Open the files read-only; missing or wrong indexes are rebuilt.

        Raises:
            OSError: one of them cannot be read.
        """
        fd = self.fs.open(self.path(names.LOG), os.O_RDONLY)
        try:
            try:
                offsets = self._open_offsets()
            except (FileNotFoundError, CorruptMessage) as error:
                self._rebuild_indexes(fd, str(error))
                offsets = self._open_offsets()
        except BaseException:
            self.fs.close(fd)
            raise
        return SegmentFiles(self.fs, lock, fd, offsets, lambda: self._open_times(fd))

    def _open_offsets(self) -> OffsetIndex:
        offsets = self.open_index(OffsetIndex)
        last = offsets.last_entry
        if last is not None and not (0 < last[1] < self.size and last[0] >= self.base_offset):
            offsets.close()
            raise CorruptMessage("the offset index points outside the log")
        return offsets

    def _open_times(self, fd: int) -> TimeIndex:
        try:
            times = self.open_index(TimeIndex)
            if times.count or not has_timestamps(fd, self.size):
                return times
            times.close()
            raise CorruptMessage("the time index is empty, but the log has timestamps")
        except (FileNotFoundError, CorruptMessage) as error:
            self._rebuild_indexes(fd, str(error))
            return self.open_index(TimeIndex)

    def find(self, files: SegmentFiles, offset: int) -> tuple[int, int] | None:
        """Return (position, size in bytes) of the first entry that ends at or after an offset.

        Raises:
            CorruptMessage: the log is damaged there.
            OSError: it cannot be read.
        """
        indexed, position = files.offsets.lookup(offset)
        if position == 0:
            return find_entry(files.fd, 0, self.size, offset)
        try:
            if not 0 < position < self.size:
                raise CorruptMessage("the position is not in the log")
            return find_entry(files.fd, position, self.size, offset, at_most=indexed)
        except CorruptMessage as error:
            # Either the index or the log is wrong: rebuild the index, and walk from the start once.
            path = self.path(names.INDEX)
            logger.warning("index unusable file=%s position=%d reason=%s", path, position, error)
            self._repair_indexes(files)
            return find_entry(files.fd, 0, self.size, offset)

    def _repair_indexes(self, files: SegmentFiles) -> None:
        if files.offsets.writable:
            self._fill_indexes(files.fd, files.offsets, files.times)
            return
        self._rebuild_indexes(files.fd, "does not fit the log")
        files.replace_indexes(self._open_offsets())

    def traits(self, files: SegmentFiles, position: int, size: int) -> tuple[int, int]:
        """Return the magic and the Fetch version that a range needs; results are remembered.

        Args:
            files: the segment's open files.
            position: where an entry begins.
            size: of the range in bytes; its last entry may be incomplete.

        Returns:
            Largest magic of its entries, and lowest version of Fetch that may carry their codecs.
        """
        start, end, magic, fetch_since = self._traits
        wanted = min(position + size, self.size)
        if start <= position and wanted <= end:
            return magic, fetch_since
        if not start <= position <= end:
            start, end, magic, fetch_since = position, position, -1, 0
        more_magic, more_since, end = traits(files.fd, end, wanted)
        magic, fetch_since = max(magic, more_magic), max(fetch_since, more_since)
        self._traits = (start, end, magic, fetch_since)
        return magic, fetch_since

    def largest_timestamp(self, files: SegmentFiles) -> int:
        """Return the largest timestamp in ms, -1 for none."""
        if self._max_timestamp is None:
            last = files.times.last_entry
            self._max_timestamp, self._offset_of_max = last or (-1, self.base_offset)
        return self._max_timestamp

    def modified_ms(self) -> int:
        """Return when the log file was last written, ms since 1970.

        Raises:
            OSError: the disk failed.
        """
        return self.path(names.LOG).stat().st_mtime_ns // 1_000_000
