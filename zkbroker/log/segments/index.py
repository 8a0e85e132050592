"""Sparse indexes of a segment.

    offset index entry   relative_offset:int32  position:int32
    time index entry     timestamp:int64        relative_offset:int32

Offsets are relative to the segment's base offset. An offset entry holds the last offset of the
append that starts at `position` (0.10 and later, and here) or its first offset (0.8 and 0.9). A
time entry holds the largest timestamp so far and an offset at or before which all messages have
at most that timestamp. Both are strictly increasing.

Invariant: an index is a hint, never the truth: the user of a position checks that there is an entry
of the log, and rebuilds the index if not. While a segment is written its indexes are pre-allocated
with zeros; they are trimmed when the segment is rolled or the log is closed. An open index has one
descriptor, or none if it is small and read-only. It is read and written a few entries at a time,
and never mapped: a full disk, or a file cut by hand, must be an error and not a SIGBUS. Recovery
restores entries lost in a crash.
"""

import errno
import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import TypeVar

from zkbroker.log import names
from zkbroker.log.fs import FileSystem

_INT32_MAX = 2**31 - 1
_SMALL_BYTES = 65_536
_PENDING_BYTES = 512
_BLOCK_BYTES = 4096
_GUESSES = 4


class _SparseIndex:
    suffix: str
    """Of its file's name."""
    entry: Struct

    def __init__(
        self, fs: FileSystem, path: Path, base_offset: int, *, max_bytes: int | None = None
    ) -> None:
        """Open an index: to write it, with a pre-allocated size, or read-only if it exists.

        Raises:
            OSError: the file cannot be opened.
        """
        self._fs = fs
        self._base_offset = base_offset
        self._path = path
        self._all: bytes | None = None
        self._pending = bytearray()
        self._written = 0
        self.writable = max_bytes is not None
        """Whether entries can be added."""
        self._fd = fs.open(path, os.O_RDWR | os.O_CREAT if self.writable else os.O_RDONLY)
        try:
            size = stored = os.fstat(self._fd).st_size
            if max_bytes is not None:
                wanted = max(max_bytes, size)
                size = wanted - wanted % self.entry.size
                fs.truncate(self._fd, size)
            self._capacity = size // self.entry.size
            if not self.writable and size <= _SMALL_BYTES:
                self._all = self._read(0, self._capacity)
            self._written = stored // self.entry.size
            self._written = self.count = self._count_entries(self._written)
            self._last = self._at(self.count - 1) if self.count else None
        except BaseException:
            fs.close(self._fd)
            raise
        if self._all is not None:
            fs.close(self._fd)
            self._fd = -1

    @property
    def full(self) -> bool:
        """Whether there is no room for another entry."""
        return self.count >= self._capacity

    def entries(self) -> Iterator[tuple[int, int]]:
        """Yield every entry as stored."""
        size = self.entry.size
        at = 0
        while at < self._written:
            block = self._read(at, min(_BLOCK_BYTES // size, self._written - at))
            yield from self.entry.iter_unpack(block)
            at += len(block) // size
        yield from self.entry.iter_unpack(bytes(self._pending))

    def clear(self) -> None:
        """Drop every entry of an index that is written."""
        self._fs.truncate(self._fd, 0)
        self._fs.truncate(self._fd, self._capacity * self.entry.size)
        self.count = self._written = 0
        self._pending.clear()
        self._last = None

    def _keep(self, count: int) -> None:
        """Drop every entry after the first `count` of an index that is written."""
        if count >= self.count:
            return
        if count >= self._written:
            del self._pending[(count - self._written) * self.entry.size :]
        else:
            self._pending.clear()
            self._fs.truncate(self._fd, count * self.entry.size)
            self._fs.truncate(self._fd, self._capacity * self.entry.size)
            self._written = count
        self.count = count
        self._last = self._at(count - 1) if count else None

    def trim(self) -> None:
        """Cut off the pre-allocated tail; the index is read-only from now on."""
        if self.writable:
            self._write_pending()
            self._fs.truncate(self._fd, self.count * self.entry.size)
            self._capacity = self.count
            self.writable = False

    def sync(self) -> None:
        """Make the file stable, as far as it is written."""
        self._fs.fsync(self._fd)

    def close(self) -> None:
        """Close the file as it is."""
        if self._fd >= 0:
            self._fs.close(self._fd)
            self._fd = -1

    def _read(self, first: int, count: int) -> bytes:
        """Return the bytes of some written entries.

        Raises:
            OSError: the disk failed, or someone cut the file.
            ValueError: the index is closed.
        """
        size = self.entry.size
        if self._all is not None:
            return self._all[first * size : (first + count) * size]
        if self._fd < 0:
            raise ValueError(f"{self._path} is closed")  # not an OSError: no disk failed
        found = os.pread(self._fd, count * size, first * size)
        if len(found) < count * size:
            raise OSError(errno.EIO, "an index is shorter than it was", str(self._path))
        return found

    def _at(self, index: int) -> tuple[int, int]:
        if index < self._written:
            first, second = self.entry.unpack(self._read(index, 1))
        else:
            at = (index - self._written) * self.entry.size
            first, second = self.entry.unpack_from(self._pending, at)
        return first, second

    def _count_below(self, column: int, value: int) -> int:
        """Return how many entries have less than a value in a column; columns ascend."""
        low, high = 0, self._written
        block = _BLOCK_BYTES // self.entry.size
        if high > block and self._last is not None:
            least, most, guesses = self._at(0)[column], self._last[column], _GUESSES
        while high - low > block:
            middle = (low + high - block) // 2
            if guesses:
                # Entries are usually spread evenly: one or two blocks are read instead of ten.
                guesses -= 1
                share = (value - least) * (high - low) // max(1, most - least)
                middle = min(max(low, low + share - block // 2), high - block)
            found = self._read(middle, block)
            first = self.entry.unpack_from(found, 0)[column]
            last = self.entry.unpack_from(found, len(found) - self.entry.size)[column]
            if first >= value:
                high, most = middle, first
            elif last < value:
                low, least = middle + block, last
            else:
                return middle + self._count_in(found, column, value)
        below = low + self._count_in(self._read(low, high - low), column, value)
        if below == self._written and self._pending:
            below += self._count_in(self._pending, column, value)
        return below

    def _count_in(self, block: bytes | bytearray, column: int, value: int) -> int:
        unpack, size = self.entry.unpack_from, self.entry.size
        low, high = 0, len(block) // size
        while low < high:  # `bisect_left` with a key takes longer
            middle = (low + high) // 2
            if unpack(block, middle * size)[column] < value:
                low = middle + 1
            else:
                high = middle
        return low

    def _count_entries(self, stored: int) -> int:
        # A trimmed index ends with an entry; in one that was not trimmed, zeros follow the entries.
        # Neither kind of index ever holds an entry of zeros.
        if stored == 0 or self._at(stored - 1) != (0, 0):
            return stored
        return bisect_left(range(stored), True, key=lambda index: self._at(index) == (0, 0))

    def _add(self, first: int, second: int) -> None:
        self._pending += self.entry.pack(first, second)
        self.count += 1
        self._last = (first, second)
        if len(self._pending) >= _PENDING_BYTES:
            self._write_pending()

    def _write_pending(self) -> None:
        if self._pending:
            self._fs.pwrite(self._fd, bytes(self._pending), self._written * self.entry.size)
            self._pending.clear()
            self._written = self.count


class OffsetIndex(_SparseIndex):
    """Maps offsets to file positions."""

    suffix = names.INDEX
    entry = Struct(">ii")

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """Offset and position of the last entry."""
        return None if self._last is None else (self._base_offset + self._last[0], self._last[1])

    def append(self, offset: int, position: int) -> None:
        """Add an entry, unless it is not past the last one or there is no room."""
        relative = offset - self._base_offset
        if self.full or not 0 <= relative <= _INT32_MAX or position <= 0:
            return
        if self._last is None or (relative > self._last[0] and position > self._last[1]):
            self._add(relative, position)

    def truncate_to(self, position: int) -> None:
        """Drop the entries at or after a position of the log file."""
        self._keep(self._count_below(1, position))

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry at or below an offset, (base offset, 0) if there is none."""
        if self._last is None:
            return self._base_offset, 0
        relative = offset - self._base_offset
        if self._last[0] <= relative:
            return self._base_offset + self._last[0], self._last[1]
        at = self._count_below(0, relative + 1)
        if at == 0:
            return self._base_offset, 0
        found, position = self._at(at - 1)
        return self._base_offset + found, position

    def position_before(self, position: int) -> int:
        """Return the largest indexed position at or below `position`, 0 if there is none."""
        at = self._count_below(1, position + 1)
        return self._at(at - 1)[1] if at else 0

    def offset_behind(self, position: int) -> int | None:
        """Return an offset stored at or after a position, None if none is indexed."""
        at = self._count_below(1, position)
        return self._base_offset + self._at(at)[0] if at < self.count else None


class TimeIndex(_SparseIndex):
    """Maps timestamps to offsets."""

    suffix = names.TIMEINDEX
    entry = Struct(">qi")

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """Timestamp in ms and offset of the last entry."""
        return None if self._last is None else (self._last[0], self._base_offset + self._last[1])

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless it is not past the last one or there is no room."""
        relative = offset - self._base_offset
        if self.full or timestamp < 0 or not 0 <= relative <= _INT32_MAX:
            return
        if timestamp == 0 and relative == 0:
            return
        if self._last is None or (timestamp > self._last[0] and relative >= self._last[1]):
            self._add(timestamp, relative)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries for an offset and for later ones."""
        self._keep(self._count_below(1, offset - self._base_offset))

    def lookup_before(self, timestamp: int) -> int:
        """Return an offset below which every message is older than `timestamp` (ms).

        It is the base offset if the index has no such entry.
        """
        at = self._count_below(0, timestamp)
        return self._base_offset + (self._at(at - 1)[1] + 1 if at else 0)


Index = TypeVar("Index", OffsetIndex, TimeIndex)
