"""A partition's log: its segments, if the broker's files can be read, and offsets by time.

Invariant: only the directory that a broker names is read, on the broker's own machine; at most
    `WALKED_BYTES` of segments are walked, for about `WALKED_S`. Files that come and go meanwhile
    are left out. They are read, not mapped: the access to a mapped file that its broker has cut
    would end this process, which may be the broker's own.
"""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.console.entries import codec_name
from zkbroker.console.partition_reader import MAX_ENTRY_BYTES, Reader
from zkbroker.errors import CorruptMessage, ZkbrokerError
from zkbroker.log.names import offset_of_file
from zkbroker.records import EntryInfo, iter_entries

WALKED_BYTES = 8 * 1024 * 1024 * 1024
WALKED_S = 3.0
MAX_SEGMENTS = 1000
_HEAD_BYTES = 256 * 1024
_BLOCK_BYTES = 1024 * 1024
_TIMES = 12
_CHUNK_BYTES = 64 * 1024


@dataclass(slots=True)
class _WalkBudget:
    """The budget left for one request."""

    bytes_left: int
    ends_s: float

    def allows(self, size: int) -> bool:
        """Whether a segment of a size may be walked; if so, take it off the budget."""
        if size > self.bytes_left or self.over:
            return False
        self.bytes_left -= size
        return True

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.ends_s


def segments_of(directory: Path) -> list[dict[str, Any]] | None:
    """Return the segments of a partition's directory; None if it cannot be read."""
    try:
        files = sorted(
            (offset, path)
            for path in directory.iterdir()
            if (offset := offset_of_file(path.name, ".log")) is not None
        )
    except OSError:
        return None
    walk = _WalkBudget(WALKED_BYTES, time.monotonic() + WALKED_S)
    found = []
    for number, (offset, path) in enumerate(files[-MAX_SEGMENTS:], 1):
        try:
            row = _segment(offset, path, walk)
        except OSError:
            continue  # deleted meanwhile
        row["active"] = number == len(files[-MAX_SEGMENTS:])
        found.append(row)
    return found


def _segment(offset: int, path: Path, walk: _WalkBudget) -> dict[str, Any]:
    formats: set[int] = set()
    codecs: set[str] = set()
    first: int | None = None
    last: int | None = None
    records: int | None = 0
    with path.open("rb") as file:
        # Compaction may put another file in its place.
        size = os.fstat(file.fileno()).st_size
        whole = walk.allows(size)
        try:
            for entry in _entries(file.fileno(), size if whole else min(size, _HEAD_BYTES)):
                formats.add(entry.magic)
                if not entry.is_control:
                    codecs.add(codec_name(entry.codec))
                if entry.base_timestamp >= 0 and first is None:
                    first = entry.base_timestamp
                if entry.max_timestamp >= 0:
                    last = max(last or 0, entry.max_timestamp)
                counts = records is not None and entry.record_count >= 0
                records = (records or 0) + entry.record_count if counts else None
                if whole and walk.over:
                    whole = False
                    break
        except CorruptMessage:
            whole = False
    return {
        "base_offset": offset,
        "bytes": size,
        "formats": sorted(formats),
        "compression": sorted(codecs),
        "first_time_ms": first,
        "last_time_ms": last if whole else None,
        "records": records if whole else None,
    }


def files_of(files: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return a log in the form of the API if only the ranges of its files are known."""
    segments: list[dict[str, Any]] = [
        {
            "base_offset": begin,
            "bytes": end - begin,
            "formats": [],
            "compression": [],
            "first_time_ms": None,
            "last_time_ms": None,
            "records": None,
            "active": number == len(files),
        }
        for number, (begin, end) in enumerate(files, 1)
    ]
    return {"segments": segments, "offsets_by_time": [], "directory": None, "source": "wire"}


def _entries(descriptor: int, size: int) -> Iterator[EntryInfo]:
    """Yield the entries in the first bytes of a file.

    Raises:
        CorruptMessage: bytes that are not an entry, or one above `MAX_ENTRY_BYTES`.
    """
    position, look = 0, _BLOCK_BYTES
    while position < size:
        block = os.pread(descriptor, min(look, size - position), position)
        read = 0
        for entry in iter_entries(block):
            yield entry
            read = entry.position + entry.size
        if read:
            position, look = position + read, _BLOCK_BYTES
        elif len(block) < look:
            return  # a partial entry at the end
        elif look >= MAX_ENTRY_BYTES:
            raise CorruptMessage(f"the entry at position {position} is too large")
        else:
            look *= 4


def is_local(host: str) -> bool:
    """Whether a host is this machine, so that one of its addresses can be bound here."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
        except OSError:
            continue
    return False


def offsets_by_time(reader: Reader) -> list[dict[str, int]]:
    """Return offsets at times from the first message to the last one.

    Raises:
        ZkbrokerError: the leader does not answer.
    """
    first = _time_at(reader, reader.start)
    last = _time_at(reader, max(reader.start, reader.end - 1))
    if first is None or last is None or last < first:
        return []
    step = max(1, (last - first) // _TIMES)
    found = [{"time_ms": first, "offset": reader.start}]
    for time_ms in range(first + step, last, step):
        offset = reader.offset_at(time_ms)
        if offset is not None:
            found.append({"time_ms": time_ms, "offset": offset})
    end = reader.offset_at(LATEST_TIME)
    found.append({"time_ms": last, "offset": reader.end if end is None else end})
    return found


def _time_at(reader: Reader, offset: int) -> int | None:
    """Return the time of the first message from an offset on; None if it has none."""
    reader.seek(offset)
    try:
        for record in reader.chunk():
            if record.time_ms >= 0:
                return record.time_ms
    except ZkbrokerError:
        return None
    return None
