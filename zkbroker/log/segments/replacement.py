"""Replaces a range of closed segments by rewritten ones, all or nothing.

    1. write every new segment as *.cleaned, fsync (`SegmentWriter`)
    2. write `replace-plan` (the old range, the new base offsets), fsync: the point of no return
    3. rename *.cleaned to *.swap, fsync of the directory (`commit_plan`)
    4. rename the old files to *.deleted and *.swap to their names (`swap_files`)
    5. fsync of the directory, remove `replace-plan`, fsync of the directory (`forget_plan`)

Only step 4 changes which files a reader would open; it is a few renames without a wait for the
disk.

Invariant: after a crash a log has all of the old range or all of the new one: without a plan the
written files are dropped, with a plan the steps are completed. The removal of a plan is stable
before the next *.cleaned file is made: a plan that a power cut brought back would take unfinished
files for its own. A genuine broker that opens the directory finishes a swap by its own rules, which
use the same suffixes.
"""

import contextlib
import os
import time
from pathlib import Path

from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.entries import walk
from zkbroker.log.segments.indexing import new_indexes
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction, encode_index
from zkbroker.records import iter_entries

PLAN = "replace-plan"
_ENTRIES_AT_ONCE = 100


class SegmentWriter:
    """Writes a segment beside its log, as `*.cleaned` files that no reader sees."""

    def __init__(self, segment: Segment, index_max_bytes: int) -> None:
        """Create the files of a new segment; those of an earlier attempt are overwritten.

        Raises:
            OSError: the disk failed.
        """
        self.segment = segment
        segment.suffix = names.CLEANED
        self.next_offset = segment.base_offset
        """The offset after the last message."""
        self._fs = segment.fs
        self._aborted: list[AbortedTransaction] = []
        with contextlib.ExitStack() as opened:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            segment.unlink((names.TXNINDEX,))
            self._fd = self._fs.open(segment.path(names.LOG), flags)
            opened.callback(self._fs.close, self._fd)
            self._indexer = opened.enter_context(new_indexes(segment, index_max_bytes))
            self._opened = opened.pop_all()

    @property
    def size(self) -> int:
        """The size of the written entries in bytes."""
        return self.segment.size

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write whole entries, with their offsets set.

        Raises:
            CorruptMessage: an entry has a wrong checksum.
            ValueError: offsets go back.
            OSError: the disk failed.
        """
        view = memoryview(data)
        written = 0
        for number, info in enumerate(iter_entries(view, verify_crc=True), 1):
            if number % _ENTRIES_AT_ONCE == 0:
                # Release the interpreter: the event loop runs in another thread.
                time.sleep(0)
            if info.base_offset < self.next_offset:
                raise ValueError(f"offset {info.base_offset} is below {self.next_offset}")
            self.next_offset = info.last_offset + 1
            self._indexer.add(self.size + info.position, info)
            written = info.position + info.size
        if written != len(view):
            raise ValueError("the last entry is not whole")
        self._fs.write_all(self._fd, view)
        self.segment.size += written

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction, in ascending order of markers."""
        self._aborted.append(transaction)

    def finish(self) -> None:
        """Make the files stable and close them.

        Raises:
            OSError: the disk failed.
        """
        self._indexer.finish()
        if self._aborted:
            index = self.segment.path(names.TXNINDEX)
            self._fs.write_file(index, encode_index(self._aborted))
        self._fs.fsync(self._fd)
        # Recovery verifies nothing here: a torn index would hide messages from searches by time.
        self._indexer.sync()
        self._opened.close()
        self.segment.aborted = self._aborted

    def abandon(self) -> None:
        """Close the files and remove them."""
        self._opened.close()
        for suffix in names.SEGMENT_SUFFIXES:
            with contextlib.suppress(OSError):
                self._fs.unlink(self.segment.path(suffix))


def commit_plan(fs: FileSystem, directory: Path, start: int, end: int, bases: list[int]) -> None:
    """Do steps 2 and 3: the old segments of `[start, end)` are to be replaced by those at `bases`.

    Raises:
        OSError: the disk failed.
    """
    text = f"0\n{start} {end}\n{' '.join(map(str, bases))}\n"
    fs.write_file(directory / PLAN, text.encode())
    _rename_cleaned(fs, directory, bases)


def _rename_cleaned(fs: FileSystem, directory: Path, bases: list[int]) -> None:
    for base in sorted(bases, reverse=True):
        for suffix in reversed(names.SEGMENT_SUFFIXES):
            name = names.file_name(base, suffix)
            with contextlib.suppress(FileNotFoundError):
                fs.rename(directory / (name + names.CLEANED), directory / (name + names.SWAP))
    fs.fsync_dir(directory)


def swap_files(fs: FileSystem, directory: Path, start: int, end: int, bases: list[int]) -> None:
    """Do step 4; it can be repeated after a crash.

    Raises:
        OSError: the disk failed.
    """
    found = [path.name for path in directory.iterdir()]
    waiting = {name for name in found if name.endswith(names.SWAP)}
    for name in found:
        for suffix in names.SEGMENT_SUFFIXES:
            base = names.offset_of_file(name, suffix)
            if base is None or not start <= base < end:
                continue
            # A new file without a .swap was put in place before the crash.
            new = base in bases and names.file_name(base, names.LOG) + names.SWAP not in waiting
            if not new:
                fs.rename(directory / name, directory / (name + names.DELETED))
    _put_in_place(fs, directory, waiting)


def forget_plan(fs: FileSystem, directory: Path) -> None:
    """Do step 5.

    Raises:
        OSError: the disk failed.
    """
    fs.fsync_dir(directory)
    fs.unlink(directory / PLAN)
    fs.fsync_dir(directory)


def finish_replacement(fs: FileSystem, directory: Path) -> None:
    """Complete the steps of a plan; without a plan do what the genuine broker does.

    Raises:
        OSError: the disk failed.
        StorageError: the plan cannot be read.
    """
    plan = directory / PLAN
    try:
        lines = plan.read_text().splitlines()
    except FileNotFoundError:
        _finish_foreign_swap(fs, directory)
        return
    try:
        start, end = map(int, lines[1].split())
        bases = list(map(int, lines[2].split())) if len(lines) > 2 else []
    except (IndexError, ValueError):
        raise StorageError(f"{plan} cannot be read") from None
    _rename_cleaned(fs, directory, bases)
    swap_files(fs, directory, start, end, bases)
    forget_plan(fs, directory)


def _put_in_place(fs: FileSystem, directory: Path, swaps: set[str]) -> None:
    # The log file gets its name last: by then the indexes of the segment are in place.
    for name in sorted(swaps, key=lambda each: (each[:20], each.endswith(names.LOG + names.SWAP))):
        fs.rename(directory / name, directory / name.removesuffix(names.SWAP))


def _finish_foreign_swap(fs: FileSystem, directory: Path) -> None:
    """Finish or drop the files that a genuine broker left of a compaction.

    It renames *.cleaned files to *.swap from the highest base offset down; so a *.swap at or above
    a *.cleaned belongs to a set that was never complete.
    """
    found = [path.name for path in directory.iterdir()]
    cleaned = [name for name in found if name.endswith(names.CLEANED)]
    swaps = [name for name in found if name.endswith(names.SWAP)]
    if not swaps:
        return
    least = min(cleaned, default="~")
    complete = {name for name in swaps if name[:20] < least[:20]}
    for name in swaps:
        if name not in complete:
            fs.unlink(directory / name)
    for name in cleaned:
        fs.unlink(directory / name)
    for name in complete:
        if name.endswith(names.LOG + names.SWAP):
            _retire_range(fs, directory, int(name[:20]), _last_offset(directory / name))
    _put_in_place(fs, directory, complete)
    fs.fsync_dir(directory)


def _retire_range(fs: FileSystem, directory: Path, first: int, last: int) -> None:
    for path in list(directory.iterdir()):
        for suffix in names.SEGMENT_SUFFIXES:
            base = names.offset_of_file(path.name, suffix)
            if base is not None and first <= base <= max(first, last):
                fs.rename(path, path.with_name(path.name + names.DELETED))


def _last_offset(path: Path) -> int:
    last = -1
    # The following recovery handles damage; entries before it count.
    with path.open("rb", buffering=0) as file, contextlib.suppress(CorruptMessage):
        for _, info in walk(file.fileno(), 0, os.fstat(file.fileno()).st_size):
            last = info.last_offset
    return last
