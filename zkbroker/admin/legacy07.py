"""Dumps files of Kafka 0.7 (`.kafka`) like 0.7.2's DumpLogSegments, and maps; checks both.

    Starting offset: 2143
    offset: 2143 isvalid: true payloadsize: 121 magic: 1 compresscodec: GZIPCompressionCodec
    tail of the log is at offset: 4234

Invariant: only `repair_log07` changes anything. `check_log07` reports the bytes that a broker's
    recovery after a crash would cut. It also reports damage before the last file, which a broker
    leaves there.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zkbroker.admin.dump_index import mapped
from zkbroker.admin.log_findings import Finding, LogCheck
from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.offset_map import CUT, MapReader, map_files
from zkbroker.log.legacy07.recovery import load_segments, recover, scan_file
from zkbroker.log.recovery.scan import Cut
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import messages, open_entry, read_entry

_CODECS: Final = {
    Codec.NONE: "NoCompressionCodec",
    Codec.GZIP: "GZIPCompressionCodec",
    Codec.SNAPPY: "SnappyCompressionCodec",
}
_KINDS: Final = (
    "rendered with magic 0",
    "rendered with magic 1",
    "as it was sent",
    "the master was cut",
)
_MAX_BYTES: Final = 128 * 1024 * 1024


def dump_segment07(path: Path, *, payloads: bool, deep: bool) -> Iterator[str]:
    """Dump a file, line for line.

    Args:
        path: a `.kafka` file; its name is the position of its first byte.
        payloads: print the payloads, as the genuine tool does by default.
        deep: print the messages inside wrappers, each after a bar, with its next offset.

    Raises:
        OSError: it cannot be read.
    """
    start = names.offset_of_file(path.name, names.KAFKA_07) or 0
    yield f"Starting offset: {start}"
    data = mapped(path)
    position = 0
    problem = ""
    while True:
        try:
            entry = read_entry(data, position)
        except CorruptMessage as error:
            problem = f"; {error}"
            break
        if entry is None:
            break
        codec = _CODECS.get(entry.codec, f"codec {entry.codec}")  # type: ignore[call-overload]
        valid = "true" if entry.valid else "false"
        yield (
            f"offset: {start + position} isvalid: {valid} payloadsize: {len(entry.payload)} "
            f"magic: {entry.magic} compresscodec: {codec}"
        )
        if payloads:
            yield "payload:\t" + str(entry.payload, "utf-8", "replace")
        if deep and entry.codec:
            yield from _inner(data[position : entry.end], start + position, payloads=payloads)
        position = entry.end
    if not problem and position < len(data):
        problem = f"; {len(data) - position} bytes after it are not a whole message"
    yield f"tail of the log is at offset: {start + position}{problem}"


def _inner(wrapper: memoryview, position: int, *, payloads: bool) -> Iterator[str]:
    try:
        for message in messages(wrapper, position):
            yield (
                f"| next offset: {message.next_offset} payloadsize: {len(message.payload)} "
                f"magic: {message.magic} checksum: {message.crc}"
            )
            if payloads:
                yield "| payload:\t" + message.payload.decode("utf-8", "replace")
    except CorruptMessage as error:
        yield f"| {error}"


def dump_map07(path: Path) -> Iterator[str]:
    """Dump a map of a view, line for line.

    Raises:
        OSError: it cannot be read.
    """
    reader = MapReader(path)
    if reader.head is None:
        yield "its head is damaged"
        return
    head = reader.head
    yield (
        f"partition: {head.partition} position: {head.position} next offset: {head.offset} "
        f"leader epoch: {head.epoch}"
    )
    for each in reader.records():
        last = "" if each.kind == CUT else f" last offset: {each.next_offset - 1}"
        yield (
            f"position: {each.position} size: {each.size} offset: {each.offset}{last} leader "
            f"epoch: {each.epoch} {_KINDS[each.kind]}"
        )
    behind = path.stat().st_size - reader.valid_bytes
    if behind:
        yield f"{behind} bytes at byte {reader.valid_bytes} are no whole record"


def check_log07(directory: Path) -> LogCheck:
    """Verify every entry of a log, inside its wrappers too, and compare it with a view's map.

    Raises:
        StorageError: files are missing between others, or cannot be read.
    """
    check = LogCheck(directory)
    try:
        segments, _ = load_segments(FileSystem(), directory)
        check.segments = len(segments)
        check.log_start_offset = segments[0].start if segments else 0
        for segment in segments:
            scan = scan_file(segment.path)
            check.log_end_offset = segment.start + scan.valid_bytes
            check.entries += scan.entries
            check.size_bytes += scan.valid_bytes
            if scan.reason is not None:
                lost = scan.size - scan.valid_bytes
                check.findings.append(
                    Finding(segment.path, scan.valid_bytes, scan.reason, lost, scan.valid_behind)
                )
            check.findings += _damaged_wrappers(segment.path, scan.valid_bytes)
        for path in map_files(directory):
            check.findings += _damaged_map(path)
    except OSError as error:
        raise StorageError(f"cannot read {directory}: {error}") from error
    return check


def repair_log07(directory: Path, now_ms: int) -> list[Cut]:
    """Cut the last file of a log to its valid part, as a broker's recovery does.

    Args:
        directory: of the log, which no broker uses.
        now_ms: part of the name of the file for the cut bytes.

    A view is not changed: its broker repairs it at its start, from its map and its master.

    Raises:
        StorageError: files are missing between others.
        OSError: the disk failed.
    """
    if map_files(directory):
        return []
    fs = FileSystem()
    segments, _ = load_segments(fs, directory)
    cut = recover(fs, segments[-1], now_ms) if segments else None
    return [] if cut is None else [cut]


def _damaged_map(path: Path) -> Iterator[Finding]:
    reader = MapReader(path)
    kafka = path.with_suffix(names.KAFKA_07)
    if reader.head is None:
        yield Finding(path, 0, "the head of the map is damaged")
        return
    if not kafka.exists():
        yield Finding(kafka, 0, "it is missing; the broker rebuilds it when it starts")
        return
    with kafka.open("rb") as file:
        for record in reader.records():
            if zlib.crc32(file.read(record.size)) != record.check:
                place = record.position - reader.head.position
                reason = "it does not match its map; the broker rebuilds it when it starts"
                yield Finding(kafka, place, reason)
                return
    behind = path.stat().st_size - reader.valid_bytes
    if behind:
        yield Finding(path, reader.valid_bytes, f"{behind} bytes are no whole record")


def _damaged_wrappers(path: Path, valid_bytes: int) -> Iterator[Finding]:
    data = path.read_bytes()[:valid_bytes]
    position = 0
    while (entry := read_entry(data, position)) is not None:
        try:
            if open_entry(entry, max_bytes=_MAX_BYTES, depth=0) is not None:
                list(messages(data[position : entry.end], position))
        except CorruptMessage as error:
            yield Finding(path, position, f"inside a wrapper: {error}")
        position = entry.end
