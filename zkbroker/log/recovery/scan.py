"""Finds the longest valid prefix of a segment, and cuts off the rest.

An entry is valid if its header is sane, it is whole, its CRC is right and its offsets follow those
of the entry before. No CRC covers the offsets, so they are checked for density: the first offset
must be the expected one. A jump forward counts as a gap left by compaction only if the following
entry continues from there, or, at the end of the log, if there are gaps before it.

Invariant: recovery never raises for the contents of a log file, never keeps a byte after the first
invalid one, and never throws a byte away: cut bytes are kept in `*.log.corrupt-<ms>`, and a `Cut`
says where, why, how much, and how many valid messages followed.
"""

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zkbroker.errors import CorruptMessage, ProtocolError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.segments.entries import SMALLEST_ENTRY
from zkbroker.log.segments.segment import MAX_RELATIVE_OFFSET
from zkbroker.records import EntryInfo, PartialEntry, iter_records, verify_entry
from zkbroker.records.layout import ENTRY_HEADER_BYTES, SIZE_AT

logger = logging.getLogger(__name__)

_CHUNK = 4 << 20
_POSITION = re.compile(r" at position \d+")


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that a recovery cut off a log file.

    Args:
        file: the log file.
        position: where the first invalid entry begins, in bytes.
        offset: the expected offset of that entry, the log's new end.
        reason: why the entry is invalid.
        bytes_cut: how many bytes were cut off.
        valid_messages_behind: messages in the cut bytes that are valid by themselves.
        kept_in: the file that holds them now; None when nothing was changed.
    """

    file: Path
    position: int
    offset: int
    reason: str
    bytes_cut: int
    valid_messages_behind: int
    kept_in: Path | None

    def __str__(self) -> str:
        return (
            f"file={self.file} position={self.position} offset={self.offset} "
            f"reason={self.reason!r} bytes={self.bytes_cut} "
            f"valid_messages_behind={self.valid_messages_behind} kept_in={self.kept_in}"
        )


@dataclass(frozen=True, slots=True)
class Scan:
    """The longest valid prefix of a segment.

    Args:
        valid_bytes: its size.
        next_offset: the offset after it.
        reason: why it ends before the file does; None if it does not.
        gaps: whether offsets are missing inside, as after a compaction.
    """

    valid_bytes: int
    next_offset: int
    reason: str | None
    gaps: bool = False


class _Reader:
    """Verified entries of a file, read in chunks."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size
        self._data = b""
        self._start = 0

    def entry(self, position: int) -> tuple[EntryInfo, int, int]:
        """Return the entry at a position and its first offset and count.

        Raises:
            CorruptMessage: there is no valid entry.
        """
        at = position - self._start
        if not 0 <= at <= len(self._data) - ENTRY_HEADER_BYTES or self._short(at):
            at = self._load(position)
        info = verify_entry(self._data, at)
        if info.record_count >= 0:
            return info, info.base_offset, info.record_count
        first, last, count = _inner_offsets(self._data[at : at + info.size])
        if last != info.last_offset:
            raise CorruptMessage(f"wrapper offset {info.last_offset} with messages up to {last}")
        return info, first, count

    def bytes(self, position: int, size: int) -> bytes:
        """Return bytes of the file."""
        return os.pread(self._fd, size, position)

    def _short(self, at: int) -> bool:
        size = int.from_bytes(
            self._data[at + SIZE_AT : at + ENTRY_HEADER_BYTES], "big", signed=True
        )
        end = at + ENTRY_HEADER_BYTES + size
        return end > len(self._data) and self._start + end <= self.size

    def _load(self, position: int) -> int:
        head = os.pread(self._fd, ENTRY_HEADER_BYTES, position)
        size = int.from_bytes(head[SIZE_AT:ENTRY_HEADER_BYTES], "big", signed=True)
        wanted = _CHUNK
        if (
            len(head) == ENTRY_HEADER_BYTES
            and size > 0
            and position + ENTRY_HEADER_BYTES + size <= self.size
        ):
            wanted = max(wanted, ENTRY_HEADER_BYTES + size)
        self._data = os.pread(self._fd, wanted, position)
        self._start = position
        return 0


def _inner_offsets(entry: bytes) -> tuple[int, int, int]:
    try:
        offsets = [record.offset for record in iter_records(entry, verify_crc=False)]
    except ProtocolError as error:
        # The checksum is right: a producer sent a wrapper that cannot be read.
        raise CorruptMessage(f"compressed messages cannot be read: {error}") from error
    if not offsets:
        raise CorruptMessage("a compressed entry without messages")
    return offsets[0], offsets[-1], len(offsets)


def scan_segment(
    path: Path,
    base_offset: int,
    *,
    next_base: int | None,
    gaps_allowed: bool = False,
    on_entry: Callable[[int, EntryInfo], None] | None = None,
) -> Scan:
    """Verify a segment's file entry by entry.

    Args:
        path: the log file.
        base_offset: the offset in its name.
        next_base: base offset of the following segment, None for the last one.
        gaps_allowed: whether the topic is compacted, so that a jump at the very end may be a gap.
        on_entry: called with position and header of each valid entry, in order.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        reader = _Reader(file.fileno())
        position, expected, gaps = 0, base_offset, False
        while position < reader.size:
            try:
                info, first, _ = reader.entry(position)
                if first < expected:
                    raise CorruptMessage(f"offset {first} where {expected} is next")
                if info.last_offset - base_offset > MAX_RELATIVE_OFFSET:
                    raise CorruptMessage(f"offset {info.last_offset} does not fit the segment")
                if next_base is not None and info.last_offset >= next_base:
                    raise CorruptMessage(f"offset {info.last_offset} belongs to a later segment")
                if first > expected:
                    sparse = gaps_allowed or gaps
                    _judge_gap(reader, position, info, expected, next_base, sparse)
            except CorruptMessage as error:
                kind = "torn entry" if isinstance(error, PartialEntry) else "invalid entry"
                # Positions in the error text count from the start of the chunk.
                text = _POSITION.sub("", str(error))
                return Scan(position, expected, f"{kind}: {text}", gaps)
            gaps = gaps or first > expected
            if on_entry is not None:
                on_entry(position, info)
            position += info.size
            expected = info.last_offset + 1
        return Scan(position, expected, None, gaps)


def _judge_gap(
    reader: _Reader,
    position: int,
    info: EntryInfo,
    expected: int,
    next_base: int | None,
    gaps_allowed: bool,
) -> None:
    following = next_base
    behind = position + info.size
    if behind < reader.size:
        try:
            _, following, _ = reader.entry(behind)
        except CorruptMessage:
            following = None
    if not gaps_allowed if following is None else following <= info.last_offset:
        raise CorruptMessage(f"offset {info.base_offset} where {expected} is next")


def cut(fs: FileSystem, path: Path, scan: Scan, now_ms: int, *, later: list[Path]) -> list[Cut]:
    """Cut a log file to its valid prefix, and put the following segments aside.

    Args:
        fs: the file system.
        path: the log file.
        scan: the result of `scan_segment`, with a reason.
        now_ms: part of the names of the files that keep the cut bytes.
        later: the log files of the following segments, ascending.

    Raises:
        OSError: the disk failed.
    """
    assert scan.reason is not None
    cuts: list[Cut] = []
    kept = free_name(path, now_ms)
    size = path.stat().st_size
    valid = count_valid_messages(path, scan.valid_bytes)
    copy_tail(fs, path, scan.valid_bytes, kept)
    fd = fs.open(path, os.O_RDWR)
    try:
        fs.truncate(fd, scan.valid_bytes)
        fs.fsync(fd)
    finally:
        fs.close(fd)
    lost = size - scan.valid_bytes
    cuts.append(Cut(path, scan.valid_bytes, scan.next_offset, scan.reason, lost, valid, kept))
    for follower in later:
        kept = free_name(follower, now_ms)
        size = follower.stat().st_size
        valid = count_valid_messages(follower, 0)
        fs.rename(follower, kept)
        reason = f"after the damage in {path.name}"
        cuts.append(Cut(follower, 0, scan.next_offset, reason, size, valid, kept))
    fs.fsync_dir(path.parent)
    for each in cuts:
        logger.error("log cut %s", each)
    return cuts


def free_name(path: Path, now_ms: int) -> Path:
    while True:
        kept = path.with_name(f"{path.name}{names.CORRUPT}{now_ms}")
        if not kept.exists():
            return kept
        now_ms += 1


def copy_tail(fs: FileSystem, path: Path, position: int, target: Path) -> None:
    with path.open("rb", buffering=0) as source:
        fd = fs.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            while data := os.pread(source.fileno(), _CHUNK, position):
                fs.write_all(fd, data)
                position += len(data)
            fs.fsync(fd)
        finally:
            fs.close(fd)


# A place where an entry may begin: an offset below 2^48, a size that is neither zero nor huge, and
# a magic. The pattern is a lookahead, so that overlapping candidates are all found.
_CANDIDATE = re.compile(
    rb"(?=\x00\x00.{6}(?!\x00\x00\x00[\x00-\x0d])[\x00-\x0f].{3}.{4}[\x00-\x02])", re.DOTALL
)


def count_valid_messages(path: Path, position: int) -> int:
    """Count the messages after a position that are valid by themselves, wherever they begin.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        reader = _Reader(file.fileno())
        messages = 0
        while reader.size - position >= SMALLEST_ENTRY:
            try:
                info, _, count = reader.entry(position)
                messages += count
                position += info.size
            except CorruptMessage:
                position = _next_candidate(reader, position + 1)
        return messages


def _next_candidate(reader: _Reader, position: int) -> int:
    while position < reader.size:
        data = reader.bytes(position, _CHUNK)
        match = _CANDIDATE.search(data)
        if match is not None:
            return position + match.start()
        if len(data) < SMALLEST_ENTRY:
            break
        position += len(data) - SMALLEST_ENTRY + 1
    return reader.size
