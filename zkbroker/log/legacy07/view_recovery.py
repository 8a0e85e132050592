"""Opens the folder of a view: makes its files match their maps, from the master if needed.

    map whole, file longer           bytes that the master has are kept; the rest, unread, is cut
    map short or damaged at its end, file whole   the same
    file short, damaged or missing   rebuilt from the map and the master, byte for byte
    master lacks the messages now    the view begins after them: their positions are out of range
    file without a map, head torn    removed: it was being created or deleted

Invariant: a position that is still served has the bytes and the offset that it always had. If they
are no longer known, the view is refused.
"""

import itertools
import logging
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zkbroker.errors import OffsetOutOfRange, ProtocolError, StorageError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.offset_map import (
    CUT,
    HEAD_BYTES,
    MapHead,
    MapReader,
    MapRecord,
    encode_record,
    make_map,
    map_files,
    map_of,
)
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.log.legacy07.view import OpenedView, ViewProgress
from zkbroker.log.legacy07.view_salvage import records_behind
from zkbroker.records.generations import AS_SENT, render

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Mapped:
    """A segment as described by its map."""

    path: Path
    head: MapHead
    end: int
    place: ViewProgress
    valid_bytes: int

    @property
    def kafka(self) -> Path:
        """The file that it describes."""
        return self.path.with_suffix(names.KAFKA_07)

    @property
    def size(self) -> int:
        """How many bytes of that file it accounts for."""
        return self.end - self.head.position


def open_view(
    fs: FileSystem, directory: Path, master: LogMaster | None, *, clean: bool
) -> OpenedView | None:
    """Make a view's files match their maps.

    Args:
        fs: the file system.
        directory: of the view.
        master: the log that it shows; None if this broker has no replica.
        clean: whether the last stop was clean: then sizes are believed and contents not checked.

    Returns:
        The view; None if there is none because it never had a whole map.

    Raises:
        StorageError: a map is damaged, or is missing after or between others.
        OSError: the disk failed.
    """
    mapped = _read_maps(fs, directory)
    _drop_unmapped(fs, directory, mapped)
    if not mapped:
        return None
    last = mapped[-1]
    _cut(fs, last.path, last.valid_bytes)
    if master is not None:
        _extend_map(fs, last, master)
    if clean:
        _check_nothing_behind(last)
    broken = None
    for each in mapped:
        if not _match_to_map(fs, each, master, verify=each is last and not clean):
            broken = each
    if broken is not None:
        mapped = _begin_after(fs, directory, mapped, broken)
    return OpenedView(
        mapped[-1].head.partition,
        [Segment07(fs, directory, each.head.position, each.size) for each in mapped],
        [each.head.offset for each in mapped],
        mapped[-1].place,
    )


def _read_maps(fs: FileSystem, directory: Path) -> list[_Mapped]:
    mapped: list[_Mapped] = []
    paths = map_files(directory)
    for path in paths:
        reader = MapReader(path)
        if reader.head is None:
            kafka = path.with_suffix(names.KAFKA_07)
            kept = kafka.exists() and kafka.stat().st_size
            if path != paths[-1] or kept or path.stat().st_size > HEAD_BYTES:
                raise StorageError(
                    f"the head of {path} is damaged: bring the file back from a copy, or move it "
                    "and all files before it away: positions in them will be out of range"
                )
            # It was being created: its head is stable before any of its messages is shown.
            fs.unlink(path)
            fs.fsync_dir(directory)
            continue
        end, place = reader.head.position, ViewProgress(reader.head.offset, reader.head.epoch)
        for record in reader.records():
            end, place = record.end, ViewProgress(record.next_offset, record.epoch)
        mapped.append(_Mapped(path, reader.head, end, place, reader.valid_bytes))
    for before, after in itertools.pairwise(mapped):
        if before.end != after.head.position:
            raise StorageError(
                f"{after.path} begins at {after.head.position}, and the map before it ends at "
                f"{before.end}: a file was lost or changed. Bring it back from a copy, or move the "
                "files before the gap away: positions in them will be out of range"
            )
    return mapped


def _drop_unmapped(fs: FileSystem, directory: Path, mapped: list[_Mapped]) -> None:
    """Remove files that were being created or deleted: without a map, empty or before all maps."""
    starts = {each.head.position for each in mapped}
    for path in sorted(directory.iterdir()):
        start = names.offset_of_file(path.name, names.KAFKA_07)
        if start is None or start in starts:
            continue
        if path.stat().st_size and (not mapped or start > mapped[0].head.position):
            raise StorageError(
                f"{path} has no map ({map_of(path).name}): bring that back from a copy, or move "
                "the whole folder away"
            )
        logger.info("0.7 file without a map removed path=%s", path)
        fs.unlink(path)
        fs.fsync_dir(directory)


def _extend_map(fs: FileSystem, last: _Mapped, master: LogMaster) -> None:
    """Restore the map's records for bytes after its end that the master has."""
    if not last.kafka.exists() or last.kafka.stat().st_size <= last.size:
        return
    found = records_behind(last.kafka, last.size, last.end, last.place.offset, master)
    fd = fs.open(last.path, os.O_RDWR | os.O_APPEND)
    try:
        for record in found:
            # The master first: the map must never be ahead of it.
            master.flush(record.next_offset)
            data = encode_record(record)
            fs.write_all(fd, data)
            last.end, last.place = record.end, ViewProgress(record.next_offset, record.epoch)
            last.valid_bytes += len(data)
        fs.fsync(fd)
    finally:
        fs.close(fd)


def _check_nothing_behind(last: _Mapped) -> None:
    """Check that the map accounts for all bytes of the file, as after a clean stop."""
    size = last.kafka.stat().st_size if last.kafka.exists() else 0
    if size > last.size:
        raise StorageError(
            f"{last.kafka} has {size} bytes, and its map accounts for {last.size}: the map was "
            "cut off or damaged, or another program appended to the file, such as a 0.7 broker. "
            "Bring the map back from a copy; or cut the file there, if no client of "
            f"0.7 got a position above {last.end}"
        )


def _match_to_map(
    fs: FileSystem, mapped: _Mapped, master: LogMaster | None, *, verify: bool
) -> bool:
    """Make a file match its map; False if that is impossible."""
    path, size = mapped.kafka, mapped.size
    found = path.stat().st_size if path.exists() else -1
    if not verify and found == size:
        return True
    good, whole = _matching_bytes(path, mapped) if found >= 0 else (0, not size)
    fd = fs.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if found != good:
            fs.truncate(fd, good)
        if not whole:
            logger.warning("0.7 view rebuilt path=%s from=%d to=%d", path, good, size)
            for data in _rebuilt_after(mapped, good, master):
                if data is None:
                    return False
                fs.write_all(fd, data)
        fs.fsync(fd)
    finally:
        fs.close(fd)
    fs.fsync_dir(path.parent)
    return True


def _matching_bytes(path: Path, mapped: _Mapped) -> tuple[int, bool]:
    """Return how many bytes match the map, and whether those are all."""
    good = 0
    with path.open("rb") as file:
        for record in MapReader(mapped.path).records():
            data = file.read(record.size)
            if len(data) < record.size or zlib.crc32(data) != record.check:
                # A record of no bytes always matches.
                return good, False
            good += record.size
    return good, True


def _rebuilt_after(mapped: _Mapped, good: int, master: LogMaster | None) -> Iterator[bytes | None]:
    for record in MapReader(mapped.path).records():
        if record.position - mapped.head.position >= good:
            yield rebuilt_bytes(record, master)


def rebuilt_bytes(record: MapRecord, master: LogMaster | None) -> bytes | None:
    """Return the bytes that a record stands for, None if the master no longer has them.

    Raises:
        StorageError: the disk failed.
    """
    if record.kind in (AS_SENT, CUT):
        return record.sent
    if master is None:
        return None
    values: list[bytes | None] = []
    offset, end = record.offset, record.next_offset
    try:
        while offset < end:
            found = master.read(offset, master.written_end)
            here = [at for at in range(len(found.offsets)) if found.offsets[at] < end]
            if [found.offsets[at] for at in here] != list(range(offset, offset + len(here))):
                return None
            values += [found.values[at] for at in here]
            if not here:
                return None
            offset += len(here)
    except (OffsetOutOfRange, ProtocolError):
        return None
    data = render(values, record.kind)
    return data if len(data) == record.size and zlib.crc32(data) == record.check else None


def _begin_after(
    fs: FileSystem, directory: Path, mapped: list[_Mapped], broken: _Mapped
) -> list[_Mapped]:
    """Let a view begin after a file that cannot be rebuilt."""
    logger.error(
        "0.7 view begins later directory=%s position=%d before=%d: its files are damaged, and the "
        "master no longer has these messages",
        directory,
        broken.end,
        mapped[0].head.position,
    )
    place = mapped.index(broken)
    kept = mapped[place + 1 :]
    if not kept:
        path = directory / names.file_name(broken.end, names.KAFKA_07)
        if broken.end == broken.head.position:
            raise StorageError(f"{path} cannot be made")
        head = MapHead(broken.head.partition, broken.end, *broken.place)
        fs.close(make_map(fs, map_of(path), head))
        fs.close(fs.open(path, os.O_RDWR | os.O_CREAT))
        fs.fsync_dir(directory)
        kept = [_Mapped(map_of(path), head, broken.end, broken.place, 0)]
    for each in mapped[: place + 1]:
        fs.unlink(each.path)
        if each.kafka.exists():
            fs.unlink(each.kafka)
        fs.fsync_dir(directory)
    return kept


def _cut(fs: FileSystem, path: Path, size: int) -> None:
    """Cut off the bytes after the last whole record, and make the rest stable."""
    fd = fs.open(path, os.O_RDWR)
    try:
        if os.fstat(fd).st_size != size:
            fs.truncate(fd, size)
        fs.fsync(fd)
    finally:
        fs.close(fd)
