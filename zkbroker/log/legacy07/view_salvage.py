"""Restores map records for bytes at the end of a view's last file that its map does not cover.

    entry of the file == the next messages of the master?
      yes -> a new record of the map, and on with the next entry
      no  -> the end: nothing after it is believed

After a crash these bytes were not flushed: no reader saw them, and they could be rendered again.
But after damage to the map readers may have seen them, and rendered bytes may differ: only this
file has a wrapper as it was sent.

Invariant: entries that get a record keep their bytes, and are in the master, on stable storage.
"""

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zkbroker.errors import CorruptMessage, OffsetOutOfRange, ProtocolError
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.offset_map import MapRecord
from zkbroker.log.legacy07.view import STRETCH_BYTES
from zkbroker.records.generations import AS_SENT, PLAIN_0, PLAIN_1
from zkbroker.records.legacy07 import entries, messages

_READ_BYTES: Final = 1024 * 1024


def records_behind(
    path: Path, skip: int, position: int, offset: int, master: LogMaster
) -> Iterator[MapRecord]:
    """Yield map records for the entries that match the master.

    Args:
        path: the file.
        skip: where in it the map ends, in bytes.
        position: the same place in the view.
        offset: the master's offset there.
        master: the log that the view shows.

    Raises:
        OSError: the file cannot be read.
        StorageError: the master's disk failed.
    """
    shown = _shown(master, offset)
    run: MapRecord | None = None
    for data in _entries(path, skip):
        found = _place_of(data, shown)
        if found is None:
            break
        first, count = found
        kind = _kind(data)
        epoch = master.epoch_of(first + count - 1)
        if (
            run is not None
            and run.kind == kind != AS_SENT
            and run.next_offset == first
            and run.size < STRETCH_BYTES
        ):
            run = run._replace(
                size=run.size + len(data),
                messages=run.messages + 1,
                check=zlib.crc32(data, run.check),
                epoch=epoch,
            )
            continue
        if run is not None:
            yield run
            position = run.end
        sent = data if kind == AS_SENT else b""
        run = MapRecord(kind, position, len(data), first, count, zlib.crc32(data), epoch, sent)
    if run is not None:
        yield run


def _entries(path: Path, skip: int) -> Iterator[bytes]:
    """Yield the entries from a place in a file on, up to an incomplete or impossible one."""
    with path.open("rb") as file:
        size = _READ_BYTES
        while True:
            file.seek(skip)
            data = file.read(size)
            reached = 0
            try:
                for entry in entries(data):
                    yield data[entry.position : entry.end]
                    reached = entry.end
            except CorruptMessage:
                return
            if len(data) < size:
                return
            skip += reached
            # An entry may be larger than the bytes read at once.
            size = _READ_BYTES if reached else size * 2


def _place_of(data: bytes, shown: Iterator[tuple[int, bytes | None]]) -> tuple[int, int] | None:
    """Return an entry's first offset and number of messages, None if the master has others."""
    try:
        payloads = [message.payload for message in messages(data, 0)]
    except CorruptMessage:
        return None
    found = list(itertools.islice(shown, len(payloads)))
    if not found or [value or b"" for _, value in found] != payloads:
        return None
    first = found[0][0]
    dense = [offset for offset, _ in found] == list(range(first, first + len(found)))
    return (first, len(found)) if dense else None


def _kind(data: bytes) -> int:
    if data[4] == 0:
        return PLAIN_0
    return AS_SENT if data[5] else PLAIN_1


def _shown(master: LogMaster, offset: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of the messages that a view would show from an offset on."""
    end = master.written_end
    try:
        while max(offset, master.start) < end:
            found = master.read(max(offset, master.start), end)
            yield from zip(found.offsets, found.values, strict=True)
            if found.next_offset <= offset:
                return
            offset = found.next_offset
    except (OffsetOutOfRange, ProtocolError):
        return
