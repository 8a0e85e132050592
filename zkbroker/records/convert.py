"""Conversion of stored entries to an older magic, for older readers.

    2 -> 1, 0   headers, producer id and control batches are dropped
    2, 1 -> 0   timestamps are dropped
    codec       is kept; a batch whose codec the older magic cannot hold is never converted

Invariant: offsets never change; whole entries only.
"""

from collections.abc import Iterator
from typing import Final

from zkbroker.codecs import CODEC_NAMES, FETCH_SINCE, FIRST_MAGIC
from zkbroker.errors import UnsupportedCompressionType
from zkbroker.records import kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec
from zkbroker.records.entries import Data, check_crc
from zkbroker.records.heads import iter_entries
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    ENTRY_HEADER_BYTES,
    INT32,
    OFFSET,
)
from zkbroker.records.messages import build_message_set, unsent
from zkbroker.records.payload import batch_payload
from zkbroker.records.portable.walk import NO_END
from zkbroker.records.record import EntryInfo, Record

_PIECE_RECORDS: Final = 10_000


def convert(
    data: Data,
    to_magic: int,
    *,
    first_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Convert entries to a magic that an older reader knows; older entries stay unchanged.

    Args:
        data: whole entries; a partial one at the end is dropped.
        to_magic: 0 or 1 (2 changes nothing).
        first_offset: converted records below it are dropped.
        max_decompressed_bytes: the largest size that one entry may expand to.

    Raises:
        UnsupportedCompressionType: `to_magic` cannot hold the first entry's codec. At such a later
            entry the result ends.
        CorruptMessage: an entry cannot be decoded.
    """
    raw = data if isinstance(data, bytes) else bytes(data)
    view = memoryview(raw)
    parts: list[bytes] = []
    for entry in iter_entries(raw):
        if entry.magic <= to_magic:
            parts.append(raw[entry.position : entry.position + entry.size])
            continue
        if entry.is_control or entry.last_offset < first_offset:
            continue
        if FIRST_MAGIC[entry.codec] > to_magic:
            if parts:
                break
            raise UnsupportedCompressionType(
                f"the batch at offset {entry.base_offset} is {CODEC_NAMES[entry.codec]}: fetch "
                f"version {FETCH_SINCE[entry.codec]} is needed"
            )
        whole = view[entry.position : entry.position + entry.size]
        for records in _pieces(whole, entry, first_offset, max_decompressed_bytes):
            append_time = entry.max_timestamp if entry.timestamp_type == 1 else None
            parts.append(
                build_message_set(
                    unsent(records),
                    to_magic,
                    offsets=[record.offset for record in records],
                    codec=Codec(entry.codec),
                    append_time=append_time,
                )
            )
    return b"".join(parts)


def _pieces(
    whole: memoryview, entry: EntryInfo, first_offset: int, max_bytes: int
) -> Iterator[list[Record]]:
    """Decode an entry; a large batch piece by piece, as records take many times their bytes."""
    bounds = [(first_offset, NO_END)]
    verify = True
    if entry.magic == 2 and entry.record_count > _PIECE_RECORDS:
        first = max(first_offset, entry.base_offset)
        starts = range(first, entry.last_offset + 1, _PIECE_RECORDS)
        bounds = [(start, start + _PIECE_RECORDS) for start in starts]
        check_crc(whole, entry._replace(position=0))
        verify = False
        whole = _decompressed(whole, entry, max_bytes)
    for start, end in bounds:
        records, _, _, error = kernels.decode_records(whole, 0, start, end, verify, max_bytes, 1)
        if error is not None:
            raise error
        if records:
            yield records


def _decompressed(whole: memoryview, entry: EntryInfo, max_bytes: int) -> memoryview:
    """Return the uncompressed batch; its checksum is still that of the compressed one."""
    if not entry.codec:
        return whole
    payload = batch_payload(whole, entry._replace(position=0), max_bytes)
    plain = bytearray(whole[:BATCH_HEADER_BYTES]) + payload
    INT32.pack_into(plain, OFFSET.size, len(plain) - ENTRY_HEADER_BYTES)
    plain[ATTRIBUTES_V2_LOW_AT] &= ~CODEC_MASK
    return memoryview(plain)
