"""Cuts a fetched chunk into pieces to send: stored batches as they are, or records.

    stored   a batch of magic 2 that may be reframed; consecutive entries of magic 0 or 1
    records  entries that cannot pass unchanged: of another magic than the target's, with holes left
    by compaction, with append times, or a batch that begins before the requested offset; also many
    consecutive small batches, which are cheaper to send as one

Invariants: pieces come in the order of the log; each record from the requested offset on is in
    exactly one; checksums are verified first, so that damage never gets a new checksum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zkbroker.errors import CorruptMessage
from zkbroker.producer import unsent_records
from zkbroker.records import Codec, EntryInfo, decode_lists, iter_entries, may_reframe
from zkbroker.records.layout import ATTRIBUTES_V2_LOW_AT
from zkbroker.records.record import Unsent

RECORD_OVERHEAD_BYTES = 36


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entries that pass unchanged."""

    data: memoryview
    magic: int
    count: int
    codec: Codec


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records to send with a codec."""

    records: Sequence[Unsent]
    codec: Codec


Piece = StoredEntries | Decoded


def cut(
    data: bytes | memoryview,
    start_offset: int,
    *,
    magic: int,
    join_bytes: int,
    max_bytes: int,
    aligned: bool = False,
    decode: bool = False,
) -> Iterator[Piece]:
    """Cut a fetched message set into pieces.

    Args:
        data: entries of any magic; a partial one at the end is left out.
        start_offset: records below it are left out.
        magic: of the target's format.
        join_bytes: stored batches of magic 2 below this size are joined.
        max_bytes: about the size of a joined piece.
        aligned: whether the first entry does not begin before `start_offset`.
        decode: whether to yield only records.

    Raises:
        CorruptMessage: after the pieces before the damage.
    """
    view = memoryview(data)
    row: list[EntryInfo] = []
    kind = ""
    size = 0
    for entry in iter_entries(data, verify_crc=True):
        # The first offset of a wrapper of magic 0 or 1 is known only from its inside.
        known = entry.magic == 2 or not entry.codec
        whole = aligned or (known and entry.base_offset >= start_offset)
        aligned = aligned or entry.last_offset >= start_offset - 1
        if entry.last_offset < start_offset or entry.is_control:
            continue
        found = _kind(view, entry, magic, whole=whole, decode=decode)
        if found == "batch" and entry.size >= join_bytes:
            yield from _row(view, row, kind, start_offset, max_bytes)
            row, kind, size = [], "", 0
            yield _stored(view, [entry])
            continue
        key = f"{found} {entry.codec}" if found != "set" else found
        if row and (key != kind or size + entry.size > max_bytes):
            yield from _row(view, row, kind, start_offset, max_bytes)
            row, size = [], 0
        row.append(entry)
        kind = key
        size += entry.size
    yield from _row(view, row, kind, start_offset, max_bytes)


def _kind(view: memoryview, entry: EntryInfo, magic: int, *, whole: bool, decode: bool) -> str:
    if decode or entry.magic != magic:
        return "records"
    if magic < 2:
        return "set" if whole else "records"
    attributes = view[entry.position + ATTRIBUTES_V2_LOW_AT]
    return "batch" if whole and may_reframe(entry, attributes) else "records"


def _row(
    view: memoryview, row: list[EntryInfo], kind: str, start_offset: int, max_bytes: int
) -> Iterator[Piece]:
    if not row:
        return
    if kind == "set" or (kind.startswith("batch") and len(row) == 1):
        yield _stored(view, row)
        return
    data = view[row[0].position : row[-1].position + row[-1].size]
    lists = decode_lists(data, start_offset=start_offset, verify_crc=False)
    if lists.error is not None:
        raise lists.error
    codec = Codec(row[0].codec)
    for records in in_batches(unsent_records(lists), max_bytes):
        yield Decoded(records, codec)


def _stored(view: memoryview, row: list[EntryInfo]) -> StoredEntries:
    first, last = row[0], row[-1]
    data = view[first.position : last.position + last.size]
    if first.magic == 2:
        count = first.record_count
    else:
        # For a wrapper this is an upper bound, used only for measures and limits.
        count = last.last_offset - first.base_offset + 1
    return StoredEntries(data, first.magic, max(1, count), Codec(first.codec))


def in_batches(records: Sequence[Unsent], max_bytes: int) -> Iterator[Sequence[Unsent]]:
    """Split records into batches of about `max_bytes`, before compression."""
    start = size = 0
    for index, record in enumerate(records):
        more = record_bytes(record)
        if index > start and size + more > max_bytes:
            yield records[start:index]
            start, size = index, 0
        size += more
    if start < len(records):
        yield records[start:]


def record_bytes(record: Unsent) -> int:
    """Estimate the uncompressed bytes of a record."""
    key, value, _, headers = record
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content or b"") + 10
    return size


def where_corrupt(error: CorruptMessage, topic: str, partition: int) -> CorruptMessage:
    """Return an error that names the partition."""
    return type(error)(f"{topic}-{partition}: {error}", code=error.code)
