"""The records of a fetch answer, each with the outcome of its transaction.

    committed   a plain record, or one of a transaction that was committed
    aborted     of a transaction that was aborted
    open        of a transaction whose end is not in the answer
    control     a marker that ends a transaction
    corrupt     an entry whose bytes cannot be read; later ones can

Invariant: every stored offset is yielded once, in order; decompression is bounded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import iter_entries, iter_records
from zkbroker.records.codec import Codec
from zkbroker.records.record import EntryInfo, Headers
from zkbroker.records.transactions import ABORT, AbortedBatches, control_type

MAX_EXPANDED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored record.

    Args:
        inside: its index in a compressed set whose records share one offset.
        next_offset: the next offset, if that is not this one plus 1.
    """

    partition: int
    offset: int
    time_ms: int
    time_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    state: str
    magic: int
    compression: str
    error: str | None = None
    inside: int = 0
    next_offset: int | None = None

    @classmethod
    def unreadable(cls, partition: int, offset: int, error: CorruptMessage) -> "StoredRecord":
        """Return the record that stands for bytes that are not an entry."""
        return cls(
            partition, offset, -1, -1, None, None, (), "corrupt", 0, "", str(error)
        )  # fmt: skip

    @property
    def after(self) -> int:
        """The next offset to read; within a set that shares one offset, the set itself."""
        return self.offset + 1 if self.next_offset is None else self.next_offset

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def stored_records(
    data: bytes,
    partition: int,
    start: int,
    aborted: Sequence[tuple[int, int]] = (),
    stable: int | None = None,
) -> Iterator[StoredRecord]:
    """Yield the records of a message set.

    Args:
        data: as fetched; a partial entry at the end is left out.
        partition: that it is of.
        start: offsets below it are left out.
        aborted: (producer id, first offset) of aborted transactions.
        stable: the last stable offset; None if everything is committed.

    Raises:
        CorruptMessage: bytes that are not an entry, so nothing after them can be read.
    """
    view = memoryview(data)
    entries, error = _entries(data)
    ended = _ends(view, entries) if stable is not None else {}
    batches = AbortedBatches(aborted)
    for entry in entries:
        part = view[entry.position : entry.position + entry.size]
        try:
            is_aborted = batches.has(entry, part)
        except CorruptMessage:
            is_aborted = False
        if entry.last_offset < start:
            continue
        state = "aborted" if is_aborted else "committed"
        if entry.is_control:
            state = "control"
        elif entry.is_transactional and stable is not None and entry.base_offset >= stable:
            state = ended.get((entry.producer_id, entry.position), "open")
        yield from _records(part, partition, start, entry, state)
    if error is not None:
        raise error


def _entries(data: bytes) -> tuple[list[EntryInfo], CorruptMessage | None]:
    """Return the entries, and the error that ended them early, if any."""
    found: list[EntryInfo] = []
    try:
        # Entries before an error stay in the list.
        found.extend(iter_entries(data))
    except CorruptMessage as error:
        return found, error
    return found, None


def _records(
    part: memoryview, partition: int, start: int, entry: EntryInfo, state: str
) -> Iterator[StoredRecord]:
    compression = codec_name(entry.codec)
    if entry.is_control:
        kind = _marker(part)
        yield StoredRecord(
            partition, entry.base_offset, entry.max_timestamp, entry.timestamp_type, None,
            None if kind is None else kind.encode(), (), state, entry.magic, compression,
        )  # fmt: skip
        return
    reached = max(start, entry.base_offset)
    try:
        for record in iter_records(
            part, start_offset=start, max_decompressed_bytes=MAX_EXPANDED_BYTES
        ):
            reached = record.offset + 1
            yield StoredRecord(
                partition, record.offset, record.timestamp, record.timestamp_type, record.key,
                record.value, record.headers, state, entry.magic, compression,
            )  # fmt: skip
    except (CorruptMessage, MessageSizeTooLarge) as error:
        yield StoredRecord(
            partition, reached, entry.max_timestamp, entry.timestamp_type, None, None, (),
            "corrupt", entry.magic, compression, str(error),
        )  # fmt: skip


def _marker(part: memoryview) -> str | None:
    try:
        kind = control_type(part)
    except CorruptMessage:
        return None
    return "abort" if kind == ABORT else "commit"


def codec_name(codec: int) -> str:
    """Return the name of a codec by its number in the attributes."""
    try:
        return Codec(codec).label
    except ValueError:
        return f"codec {codec}"


def _ends(view: memoryview, entries: Sequence[EntryInfo]) -> dict[tuple[int, int], str]:
    """Return (producer, position) of batches whose transaction ends in the answer → outcome."""
    found: dict[tuple[int, int], str] = {}
    next_end: dict[int, str] = {}
    for entry in reversed(entries):
        if entry.is_control:
            part = view[entry.position : entry.position + entry.size]
            kind = _marker(part)
            next_end[entry.producer_id] = "aborted" if kind == "abort" else "committed"
        elif entry.is_transactional and entry.producer_id in next_end:
            found[entry.producer_id, entry.position] = next_end[entry.producer_id]
    return found
