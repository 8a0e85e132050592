"""Replacing a range of segments by rewritten ones, all or nothing.

    1. write every new segment as *.cleaned, fsync
    2. write `replace-plan` (the old range, the new base offsets), fsync: the point of no return
    3. rename *.cleaned to *.swap; rename the old files to *.deleted; rename *.swap to their names
    4. remove `replace-plan`

Invariant: after a crash a log has all of the old range or all of the new: without a plan what was
written is dropped, with one the steps are done to the end. A genuine broker that opens the
directory finishes a swap by its own rules, which know the same suffixes.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.entries import walk
from zkbroker.log.fs import FileSystem
from zkbroker.log.segment import Segment
from zkbroker.log.view import MutableLogView
from zkbroker.records import iter_entries

PLAN = "replace-plan"


def replace_segments(log: MutableLogView, end_offset: int, entries: Iterable[bytes]) -> None:
    """Replace every segment below an offset by others that hold given entries.

    Offsets of messages that are kept stay as they are; gaps may remain between them. After a crash
    at any point the log has all of the old segments or all of the new.

    Args:
        log: the log; none of its active segment is replaced (`roll` it before).
        end_offset: base offset of the first segment that stays.
        entries: whole entries, ascending, with their offsets set.

    Raises:
        ValueError: `end_offset` is not where a segment begins, or offsets do not ascend below it.
        OSError: the disk failed.
    """
    old = [segment for segment in log.segments if segment.base_offset < end_offset]
    if len(old) == len(log.segments) or log.segments[len(old)].base_offset != end_offset:
        raise ValueError(f"no segment of {log.topic_partition} begins at {end_offset}")
    if not old:
        return
    # Off the event loop; it takes no lock, since another thread could not have it.
    new = log.context.runtime.offload(_rewrite, log, old[0].base_offset, end_offset, entries)
    log.set_segments([*new, *log.segments[len(old) :]])
    due = log.now_ms() + log.config.file_delete_delay_ms
    for segment in old:
        segment.suffix = names.DELETED
        log.context.open_files.forget(segment)
        log.context.doomed += [(due, segment.path(suffix)) for suffix in names.SEGMENT_SUFFIXES]


def _rewrite(log: MutableLogView, start: int, end: int, entries: Iterable[bytes]) -> list[Segment]:
    new = _write_cleaned(log, start, end, entries)
    bases = [segment.base_offset for segment in new]
    write_plan(log.context.fs, log.directory, start, end, bases)
    carry_out(log.context.fs, log.directory, start, end, bases)
    return new


def _write_cleaned(
    log: MutableLogView, start: int, end: int, entries: Iterable[bytes]
) -> list[Segment]:
    fs, new, expected, fd = log.context.fs, list[Segment](), start, -1
    try:
        for data in entries:
            for info in iter_entries(data, verify_crc=True):
                if not expected <= info.base_offset <= info.last_offset < end:
                    raise ValueError(f"offset {info.base_offset} is not in [{expected}, {end})")
                expected = info.last_offset + 1
                if not new or new[-1].size + info.size > log.config.segment_bytes:
                    if fd >= 0:
                        fs.fsync(fd)
                        fs.close(fd)
                    new.append(log.new_segment(info.base_offset if new else start))
                    path = new[-1].path(names.LOG)
                    path = path.with_name(path.name + names.CLEANED)
                    fd = fs.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
                fs.write_all(fd, memoryview(data)[info.position : info.position + info.size])
                new[-1].size += info.size
        if fd >= 0:
            fs.fsync(fd)
    finally:
        if fd >= 0:
            fs.close(fd)
    return new


def write_plan(fs: FileSystem, directory: Path, start: int, end: int, bases: list[int]) -> None:
    """Note that the segments with base offsets in `[start, end)` give way to those at `bases`."""
    text = f"0\n{start} {end}\n{' '.join(map(str, bases))}\n"
    fs.write_file(directory / PLAN, text.encode())


def finish_replacement(fs: FileSystem, directory: Path) -> None:
    """Do the steps of a plan to the end; without a plan do what the genuine broker does.

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
    carry_out(fs, directory, start, end, bases)


def carry_out(fs: FileSystem, directory: Path, start: int, end: int, bases: list[int]) -> None:
    """Steps 3 and 4; each can be done again after a crash.

    Raises:
        OSError: the disk failed.
    """
    for base in sorted(bases, reverse=True):
        for suffix in reversed(names.SEGMENT_SUFFIXES):
            name = names.file_name(base, suffix)
            with contextlib.suppress(FileNotFoundError):
                fs.rename(directory / (name + names.CLEANED), directory / (name + names.SWAP))
    fs.fsync_dir(directory)
    waiting = {path.name for path in directory.iterdir() if path.name.endswith(names.SWAP)}
    for path in list(directory.iterdir()):
        for suffix in names.SEGMENT_SUFFIXES:
            found = names.offset_of_file(path.name, suffix)
            if found is None or not start <= found < end:
                continue
            # A new file without its .swap was put in place before the crash.
            new = found in bases and names.file_name(found, names.LOG) + names.SWAP not in waiting
            if not new:
                fs.rename(path, path.with_name(path.name + names.DELETED))
    _put_in_place(fs, directory, waiting)
    fs.unlink(directory / PLAN)


def _put_in_place(fs: FileSystem, directory: Path, swaps: set[str]) -> None:
    # The log file is the last to get its name: until then the segment's own indexes are there.
    for name in sorted(swaps, key=lambda each: (each[:20], each.endswith(names.LOG + names.SWAP))):
        fs.rename(directory / name, directory / name.removesuffix(names.SWAP))
    fs.fsync_dir(directory)


def _finish_foreign_swap(fs: FileSystem, directory: Path) -> None:
    """Finish or drop what a genuine broker left of a compaction.

    Its *.cleaned files become *.swap from the highest base offset down; so a *.swap at or past a
    *.cleaned belongs to a set that was never complete.
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
            _give_way(fs, directory, int(name[:20]), _last_offset(directory / name))
    _put_in_place(fs, directory, complete)


def _give_way(fs: FileSystem, directory: Path, first: int, last: int) -> None:
    for path in list(directory.iterdir()):
        for suffix in names.SEGMENT_SUFFIXES:
            base = names.offset_of_file(path.name, suffix)
            if base is not None and first <= base <= max(first, last):
                fs.rename(path, path.with_name(path.name + names.DELETED))


def _last_offset(path: Path) -> int:
    last = -1
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, info in walk(fd, 0, os.fstat(fd).st_size):
            last = info.last_offset
    except CorruptMessage:
        # The recovery that follows deals with it; what it holds before counts.
        pass
    finally:
        os.close(fd)
    return last
