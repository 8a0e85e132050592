"""Dumps a segment, line for line like the genuine DumpLogSegments of 2.3.

    Starting offset: 0
    offset: 9 position: 0 CreateTime: 1795178524017 size: 341 magic: 1 compresscodec: GZIP ...
    | offset: 0 CreateTime: 1795178524010 keysize: 6 valuesize: 19 crc: 3153406696 ...

Invariant: the iterator yields the lines of standard output, `report` gets those of standard error.
    Damage never raises: it is reported, and the dump goes on with the next entry, if any.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zkbroker.admin.dump_decoders import STRINGS, RecordDecoder
from zkbroker.admin.dump_index import (
    Report,
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
    mapped,
)
from zkbroker.admin.legacy07 import dump_map07, dump_segment07
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import Codec, EntryInfo, Record, decode_entry, iter_entries, verify_entry
from zkbroker.records.payload import unwrap
from zkbroker.records.record import TIMESTAMP_TYPE_NAMES

_MAX_MESSAGE_BYTES: Final = 5 * 1024 * 1024
_MAX_SEQUENCE: Final = 2**31 - 1
_NAMED_AFTER_OFFSET: Final = (".log", ".index", ".timeindex")
_CONTROL_TYPES: Final = {0: "ABORT", 1: "COMMIT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """The options of the tool.

    Args:
        print_data_log: print keys and payloads; includes `deep_iteration`.
        deep_iteration: print the records of each entry, not the entry alone.
        verify_index_only: compare indexes with the log without printing them.
        index_sanity_check: do only the start-up checks of an index.
        max_message_size: an entry above it, in bytes, ends the dump of its file.
        decoder: of keys and payloads.
    """

    print_data_log: bool = False
    deep_iteration: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = _MAX_MESSAGE_BYTES
    decoder: RecordDecoder = STRINGS


def dump_log(files: Iterable[Path], options: DumpOptions, *, report: Report) -> Iterator[str]:
    """Dump segments and the files beside them.

    Args:
        files: of the kinds .log, .index, .timeindex, .snapshot, .txnindex and .kafka (0.7).
        options: of the tool.
        report: receives the lines for standard error.

    Raises:
        OSError: a file cannot be read.
    """
    for path in files:
        yield f"Dumping {path}"
        if path.suffix in _NAMED_AFTER_OFFSET and not path.stem.isdecimal():
            report(f"{path} is not named after an offset, as in 00000000000000000000{path.suffix}")
        elif path.suffix == ".log":
            yield from _dump_segment(path, options, report)
        elif path.suffix in (".index", ".timeindex"):
            dump = dump_index if path.suffix == ".index" else dump_time_index
            yield from dump(
                path,
                mapped(path.with_suffix(".log")),
                verify_only=options.verify_index_only,
                sanity_only=options.index_sanity_check,
                report=report,
            )
        elif path.suffix == ".kafka":
            yield from dump_segment07(
                path, payloads=options.print_data_log, deep=options.deep_iteration
            )
        elif path.suffix == ".map":
            yield from dump_map07(path)
        elif path.suffix == ".snapshot":
            yield from dump_snapshot(path, report)
        elif path.suffix == ".txnindex":
            yield from dump_transaction_index(path)
        else:
            report(f"Ignoring unknown file {path}")


def _dump_segment(path: Path, options: DumpOptions, report: Report) -> Iterator[str]:
    data = mapped(path)
    yield f"Starting offset: {int(path.stem)}"
    deep = options.deep_iteration or options.print_data_log
    reached = 0
    last = -1
    gaps: list[tuple[int, int]] = []
    try:
        for entry in iter_entries(data):
            if entry.size > options.max_message_size:
                report(
                    f"an entry of {entry.size} bytes at position {entry.position} is above "
                    f"max-message-size {options.max_message_size}"
                )
                break
            yield _entry_line(data, entry)
            reached = entry.position + entry.size
            if not deep:
                continue
            try:
                lines = _record_lines(data, entry, options)
            except (CorruptMessage, MessageSizeTooLarge, ValueError) as error:
                report(f"cannot decode the entry at position {entry.position}: {error}")
                continue
            for offset, line in lines:
                if last not in (-1, offset - 1):
                    gaps.append((last, offset))
                last = offset
                yield line
    except CorruptMessage as error:
        report(str(error))
    if reached < len(data):
        yield f"Found {len(data) - reached} invalid bytes at the end of {path.name}"
    if gaps:
        report(f"Non-consecutive offsets in {path.absolute()}")
        for first, second in gaps:
            report(f"  {first} is followed by {second}")


def _is_valid(data: memoryview, entry: EntryInfo) -> str:
    try:
        verify_entry(data, entry.position)
    except CorruptMessage:
        return "false"
    return "true"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _sequence(base: int, delta: int) -> int:
    """Sequence numbers wrap from 2**31 - 1 to 0; -1 is none."""
    return -1 if base < 0 else (base + delta) & _MAX_SEQUENCE


def _entry_line(data: memoryview, entry: EntryInfo) -> str:
    if entry.magic == 2:
        span = entry.last_offset - entry.base_offset
        head = (
            f"baseOffset: {entry.base_offset} lastOffset: {entry.last_offset} "
            f"count: {entry.record_count} baseSequence: {entry.base_sequence} "
            f"lastSequence: {_sequence(entry.base_sequence, span)} "
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"partitionLeaderEpoch: {entry.partition_leader_epoch} "
            f"isTransactional: {_flag(entry.is_transactional)} "
            f"isControl: {_flag(entry.is_control)}"
        )
    else:
        head = f"offset: {entry.last_offset}"
    try:
        codec = Codec(entry.codec).name
    except ValueError:
        codec = str(entry.codec)
    return (
        f"{head} position: {entry.position} "
        f"{TIMESTAMP_TYPE_NAMES[entry.timestamp_type]}: {entry.max_timestamp} "
        f"size: {entry.size} magic: {entry.magic} compresscodec: {codec} "
        f"crc: {entry.crc} isvalid: {_is_valid(data, entry)}"
    )


def _record_lines(
    data: memoryview, entry: EntryInfo, options: DumpOptions
) -> list[tuple[int, str]]:
    records = decode_entry(data, entry, verify_crc=False)
    if entry.magic == 2:
        tails = [
            f"sequence: {_sequence(entry.base_sequence, record.offset - entry.base_offset)} "
            f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
            for record in records
        ]
    else:
        inner = memoryview(unwrap(data, entry)) if entry.codec else data
        heads = iter_entries(inner) if entry.codec else [entry]
        tails = [f"crc: {head.crc} isvalid: {_is_valid(inner, head)}" for head in heads]
    kind = TIMESTAMP_TYPE_NAMES[entry.timestamp_type]
    return [
        (
            record.offset,
            f"| offset: {record.offset} {kind}: {record.timestamp} {_sizes(record)} "
            + tail
            + _content(entry, record, options),
        )
        for record, tail in zip(records, tails, strict=True)
    ]


def _sizes(record: Record) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    return f"keysize: {key_size} valuesize: {value_size}"


def _content(entry: EntryInfo, record: Record, options: DumpOptions) -> str:
    if entry.is_control:
        return _control(record)
    if not options.print_data_log or record.value is None:
        return ""
    key, payload = options.decoder(record.key, record.value)
    return ("" if key is None else f" key: {key}") + (
        "" if payload is None else f" payload: {payload}"
    )


def _control(record: Record) -> str:
    key = record.key or b""
    kind = int.from_bytes(key[2:4], "big", signed=True)
    name = _CONTROL_TYPES.get(kind)
    if name is None:
        return f" controlType: UNKNOWN({kind})"
    epoch = int.from_bytes((record.value or b"")[2:6], "big", signed=True)
    return f" endTxnMarker: {name} coordinatorEpoch: {epoch}"
