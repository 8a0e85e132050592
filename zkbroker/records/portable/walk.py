"""Walks over entries that decode their records, in plain Python.

A walk decodes the records from offset `start` on, up to `end`. It checks CRCs with `verify`, and
`max_bytes` is the largest size that an entry may expand to.

Invariant: the result of a walk never holds a part of an entry: a bad entry is left out as a whole,
with everything after it.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data, check_crc, read_head
from zkbroker.records.layout import MAGIC_AT
from zkbroker.records.payload import batch_payload
from zkbroker.records.portable.batch import decode_payload
from zkbroker.records.portable.messages import decode_message, decode_plain, decode_wrapper
from zkbroker.records.record import EntryInfo, Headers, PartialEntry, Record

Row = TypeVar("Row", bound=tuple[Any, ...])
DecodeError = CorruptMessage | MessageSizeTooLarge
Buffer = bytes | bytearray | memoryview

NO_END: Final = 2**63 - 1
# Columns address their data by int32; a walk ends early, after an entry, when it exceeds this.
COLUMN_BYTES: Final = 1 << 30

# next position, next offset, error
Walked = tuple[int, int, DecodeError | None]


def decode_entry(
    data: Data,
    entry: EntryInfo,
    *,
    verify_crc: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Decode the records of one entry, even control records; `verify_crc` is for inner messages.

    Raises:
        CorruptMessage: the contents contradict the head.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    if entry.magic == 2:
        return decode_payload(batch_payload(data, entry, max_bytes), entry)
    if entry.codec:
        return decode_wrapper(data, entry, verify_crc=verify_crc, max_bytes=max_bytes)
    return [decode_message(data, entry)]


def entry_head(data: Data, position: int, verify: bool) -> EntryInfo | None:
    """Read (and verify) the head of a valid entry, if that is faster.

    Returns:
        The head; or None for an entry that needs a closer check by the caller. In Python every
        entry does.
    """
    return None


class _Walk:
    """Iterates the records of one entry after the other, and keeps the position of the walk."""

    def __init__(
        self, data: Data, position: int, start: int, end: int, verify: bool, max_bytes: int
    ) -> None:
        self.data = data if isinstance(data, bytes) else bytes(data)
        self.position = position
        self.next_offset = start
        self.start = start
        self.end = end
        self.verify = verify
        self.max_bytes = max_bytes
        self.room = NO_END  # how many records are still wanted
        self.error: DecodeError | None = None

    def __iter__(self) -> Iterator[list[Record]]:
        data = self.data
        view = memoryview(data)
        stop = len(data)
        start = self.start
        while self.position < stop:
            if stop - self.position > MAGIC_AT and data[self.position + MAGIC_AT] < 2:
                records, self.position, last = decode_plain(
                    data, view, self.position, start, self.end, self.verify, self.room
                )
                if last >= self.next_offset:
                    self.next_offset = last + 1
                if last >= 0:
                    yield records
                    continue
            try:
                entry = read_head(data, self.position)
            except PartialEntry:
                return
            except CorruptMessage as error:
                self._failed(error, None)
                return
            if entry.base_offset >= self.end and entry.record_count >= 0:
                return
            try:
                records = self._records(view, entry)
            except (CorruptMessage, MessageSizeTooLarge) as error:
                self._failed(error, entry)
                return
            self.position += entry.size
            if entry.last_offset >= self.next_offset:
                self.next_offset = entry.last_offset + 1
            if records:
                if entry.base_offset < start or entry.last_offset >= self.end or entry.magic < 2:
                    records = [r for r in records if start <= r.offset < self.end]
                yield records

    def _records(self, view: memoryview, entry: EntryInfo) -> list[Record]:
        if self.verify:
            check_crc(view, entry)
        if entry.is_control or entry.last_offset < self.start:
            return []
        return decode_entry(self.data, entry, verify_crc=self.verify, max_bytes=self.max_bytes)

    def _failed(self, error: DecodeError, entry: EntryInfo | None) -> None:
        if isinstance(error, CorruptMessage):
            error.position = self.position
            error.base_offset = None if entry is None else entry.base_offset
        self.error = error


def decode_records(
    data: Data,
    position: int,
    start: int,
    end: int,
    verify: bool,
    max_bytes: int,
    max_records: int,
) -> tuple[list[Record], int, int, DecodeError | None]:
    """Decode entries until there are at least `max_records` records.

    Returns:
        The records, the position and the offset after the last processed entry, and the error that
        stopped the walk, if any.
    """
    walk = _Walk(data, position, start, end, verify, max_bytes)
    walk.room = max(max_records, 1)
    out: list[Record] = []
    for records in walk:
        out += records
        walk.room = max_records - len(out)
        if walk.room <= 0:
            break
    return out, walk.position, walk.next_offset, walk.error


def decode_rows(
    data: Data,
    start: int,
    end: int,
    verify: bool,
    max_bytes: int,
    row_type: type[Row],
    topic: str,
    partition: int,
) -> tuple[list[Row], int, DecodeError | None]:
    """Decode into rows of topic, partition, offset, key, value, timestamp, its type, and headers.

    The rows are of a NamedTuple of these fields, whose constructor is not called.

    Returns:
        The rows, the next offset, and the error that stopped the walk, if any.
    """
    walk = _Walk(data, 0, start, end, verify, max_bytes)
    make = tuple.__new__
    rows: list[Row] = []
    for records in walk:
        rows += [
            make(row_type, (topic, partition, offset, key, value, timestamp, kind, headers))
            for offset, timestamp, kind, key, value, headers in records
        ]
    return rows, walk.next_offset, walk.error


def end_of_entries(data: Data) -> Walked:
    """Find the end of the whole entries, by their heads only.

    Returns:
        The position and the offset after the last whole entry (0 if there is none), and the error
        that stopped the walk, if any.
    """
    walk = _Walk(data, 0, NO_END, NO_END, False, 0)
    walk.next_offset = 0
    for _ in walk:
        pass
    return walk.position, walk.next_offset, walk.error


# offsets, timestamps, timestamp types, keys, values, headers
Lists = tuple[
    list[int],
    list[int],
    list[int],
    list[bytes | None],
    list[bytes | None],
    list[Headers] | None,
    int,
    DecodeError | None,
]


def decode_lists(data: Data, start: int, end: int, verify: bool, max_bytes: int) -> Lists:
    """Decode into one list for each column; headers are None if no record has any.

    Returns:
        Offsets, timestamps, timestamp types, keys, values, headers, next offset, error.
    """
    walk = _Walk(data, 0, start, end, verify, max_bytes)
    rows: list[Record] = []
    for records in walk:
        rows += records
    if not rows:
        return [], [], [], [], [], None, walk.next_offset, walk.error
    offsets, timestamps, types, keys, values, headers = map(list, zip(*rows, strict=True))
    return (
        offsets,
        timestamps,
        types,
        keys,
        values,
        headers if any(headers) else None,
        walk.next_offset,
        walk.error,
    )


# offsets, data, validity of one column of bytes
ByteColumn = tuple[Buffer, Buffer, Buffer | None]
ColumnTuple = tuple[
    int,
    Buffer,
    Buffer,
    Buffer,
    ByteColumn,
    ByteColumn,
    list[Headers] | None,
    int,
    DecodeError | None,
]


def decode_columns(
    data: Data, start: int, end: int, verify: bool, headers: bool, max_bytes: int
) -> ColumnTuple:
    """Decode into buffers in Arrow's layout.

    Returns:
        Count, offsets, timestamps (int64), timestamp types (int32), keys, values (each int32
        offsets, data, validity bitmap or None), headers if requested, next offset, error.
    """
    walk = _Walk(data, 0, start, end, verify, max_bytes)
    rows: list[Record] = []
    size = 0
    for records in walk:
        rows += records
        for record in records:
            size += len(record.key or b"") + len(record.value or b"")
        if size >= COLUMN_BYTES:
            break
    return (
        len(rows),
        array("q", [row.offset for row in rows]).tobytes(),
        array("q", [row.timestamp for row in rows]).tobytes(),
        array("i", [row.timestamp_type for row in rows]).tobytes(),
        _byte_column([row.key for row in rows]),
        _byte_column([row.value for row in rows]),
        [row.headers for row in rows] if headers else None,
        walk.next_offset,
        walk.error,
    )


def _byte_column(cells: Sequence[bytes | None]) -> ByteColumn:
    offsets = array("i", [0])
    total = 0
    for cell in cells:
        if cell is not None:
            total += len(cell)
        offsets.append(total)
    data = b"".join([cell for cell in cells if cell is not None])
    if None not in cells:
        return offsets.tobytes(), data, None
    validity = bytearray((len(cells) + 7) // 8)
    for index, cell in enumerate(cells):
        if cell is not None:
            validity[index >> 3] |= 1 << (index & 7)
    return offsets.tobytes(), data, validity
