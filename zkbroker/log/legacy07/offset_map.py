"""The map of a view: it relates positions to offsets of the master. One file for each segment.

    <log.dir>/<topic>-<index>/%020d.kafka   bytes of the view
                              %020d.map     the master's offsets for these bytes

    head     magic:8 = "zkb07map"  partition:i32  position:i64  offset:i64  epoch:i32  crc:u32
    record   crc:u32  kind:i8  position:i64  size:i32  offset:i64  messages:i32  check:u32
             epoch:i32  [the bytes themselves, `size` of them, if kind is 2]

Big-endian. The head's `position` is the number in the file's name, and `offset` is the master's
offset there. The head's CRC-32 covers the bytes before it, a record's CRC-32 those after it. A
record stands for the `size` bytes of the view from `position` on, whose CRC-32 is `check`: the
messages with offsets `offset` to `offset + messages - 1`, without a gap, the last of them appended
to the master under leader epoch `epoch` (-1 if the master does not know).

    kind 0   messages of magic 0, uncompressed       kind 2   as a 0.7 producer sent them
    kind 1   messages of magic 1, uncompressed       kind 3   no bytes: the master was truncated and
                                                              continues at `offset`

So a view can be rebuilt, byte for byte, from the master and its map.

Invariants: a map is appended to and never changed. Messages in it keep their positions for ever,
and are on stable storage in the master before the map has them. Records follow each other without a
gap in `position`; offsets grow except at kind 3, and of two records with the same offset the later
one has its present position.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.records.generations import AS_SENT

SUFFIX: Final = ".map"
CUT: Final = 3
_MAGIC = b"zkb07map"
_HEAD = struct.Struct(">8siqqi")
_CRC = struct.Struct(">I")
_RECORD = struct.Struct(">bqiqiIi")
HEAD_BYTES: Final = _HEAD.size + _CRC.size
RECORD_BYTES: Final = _CRC.size + _RECORD.size


class MapHead(NamedTuple):
    """The start of a segment of a view; see the diagram."""

    partition: int
    position: int
    offset: int
    epoch: int


class MapRecord(NamedTuple):
    """A stretch of a view; see the diagram."""

    kind: int
    position: int
    size: int
    offset: int
    messages: int
    check: int
    epoch: int
    sent: bytes = b""

    @property
    def end(self) -> int:
        """Position after it."""
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        """The master's offset after it."""
        return self.offset + self.messages


class MapReader:
    """Reads one map file to its end, or to its first record that is incomplete or damaged.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head: MapHead | None = None
        """None if it is incomplete: no reader ever got bytes of that segment."""
        self.valid_bytes = 0
        """How many bytes were found valid so far."""
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
        if len(data) == HEAD_BYTES and _CRC.unpack_from(data, _HEAD.size)[0] == zlib.crc32(
            data[: _HEAD.size]
        ):
            magic, *values = _HEAD.unpack_from(data)
            if magic == _MAGIC:
                self.head = MapHead(*values)
                self.valid_bytes = HEAD_BYTES

    def records(self) -> Iterator[MapRecord]:
        """Yield the records in order; `valid_bytes` grows with them."""
        if self.head is None:
            return
        position = self.head.position
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(HEAD_BYTES)
            while (record := _read(file, size)) is not None and record.position == position:
                self.valid_bytes += RECORD_BYTES + len(record.sent)
                position = record.end
                yield record


def _read(file: BinaryIO, end: int) -> MapRecord | None:
    data = file.read(RECORD_BYTES)
    if len(data) < RECORD_BYTES:
        return None
    values = _RECORD.unpack_from(data, _CRC.size)
    record = MapRecord(*values)
    if not 0 <= record.kind <= CUT or record.size < 0:
        return None
    crc = zlib.crc32(data[_CRC.size :])
    if record.kind == AS_SENT:
        if record.size > end - file.tell():
            return None
        sent = file.read(record.size)
        crc = zlib.crc32(sent, crc)
        record = record._replace(sent=sent)
    return record if crc == _CRC.unpack_from(data)[0] else None


class MapFile:
    """Writes the map of one file; every method may wait for the disk and raise `OSError`.

    Args:
        fs: the file system.
        kafka: path of the view's file, whose map exists.
    """

    def __init__(self, fs: FileSystem, kafka: Path) -> None:
        self._fs = fs
        self._fd = fs.open(map_of(kafka), os.O_RDWR | os.O_APPEND)

    def append(self, records: Sequence[MapRecord]) -> None:
        """Write records; they are on stable storage afterwards."""
        self._fs.write_all(self._fd, b"".join([encode_record(each) for each in records]))
        self._fs.fsync(self._fd)

    def begin(self, kafka: Path, head: MapHead) -> None:
        """Create the map of another file, and continue with that."""
        before, self._fd = self._fd, make_map(self._fs, map_of(kafka), head)
        self._fs.close(before)

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self._fd)


def make_map(fs: FileSystem, path: Path, head: MapHead) -> int:
    """Create or replace a map file, on stable storage with its head; returns the descriptor.

    Raises:
        OSError: it cannot be written; then it is removed.
    """
    fd = fs.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        fs.truncate(fd, 0)
        fs.write_all(fd, encode_head(head))
        fs.fsync(fd)
        fs.fsync_dir(path.parent)
    except OSError:
        fs.close(fd)
        # A view may never have a file that begins there.
        with contextlib.suppress(OSError):
            fs.unlink(path)
        raise
    return fd


def encode_head(head: MapHead) -> bytes:
    """Return the head of a map file."""
    data = _HEAD.pack(_MAGIC, *head)
    return data + _CRC.pack(zlib.crc32(data))


def encode_record(record: MapRecord) -> bytes:
    """Return the stored form of a record."""
    data = _RECORD.pack(*record[:7])
    crc = zlib.crc32(record.sent, zlib.crc32(data))
    return b"".join((_CRC.pack(crc), data, record.sent))


def map_of(kafka: Path) -> Path:
    """Return the map file of a segment's file."""
    return kafka.with_suffix(SUFFIX)


def map_files(directory: Path) -> list[Path]:
    """Return the map files of a view, oldest first; empty for a log that is not a view.

    Raises:
        OSError: the folder cannot be read.
    """
    return sorted(directory.glob(f"*{SUFFIX}"))


def read_head(path: Path) -> MapHead:
    """Return the head of a map file.

    Raises:
        StorageError: it is damaged.
        OSError: it cannot be read.
    """
    head = MapReader(path).head
    if head is None:
        raise StorageError(f"{path} is not a map of a 0.7 view, or its head is damaged")
    return head
