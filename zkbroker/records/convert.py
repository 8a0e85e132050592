"""Conversion down, for readers older than what is stored.

    2 -> 1, 0   headers, producer id and control batches are dropped
    2, 1 -> 0   timestamps are dropped
    codec       is kept; a zstd batch is never converted, an older magic cannot hold it

Invariant: offsets never change; whole entries only.
"""

from zkbroker.errors import UnsupportedCompressionType
from zkbroker.records import kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec
from zkbroker.records.entries import Data
from zkbroker.records.heads import iter_entries
from zkbroker.records.messages import build_message_set, unsent
from zkbroker.records.portable.walk import NO_END


def convert(
    data: Data,
    to_magic: int,
    *,
    first_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Convert entries to a magic that an older reader knows; older entries stay as they are.

    Args:
        data: whole entries; a partial one at the end is dropped.
        to_magic: 0 or 1 (2 changes nothing).
        first_offset: converted records below it are dropped.
        max_decompressed_bytes: the most one entry may expand to.

    Raises:
        UnsupportedCompressionType: the first entry is zstd. At a later one the answer ends.
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
        if entry.codec == Codec.ZSTD:
            if parts:
                break
            raise UnsupportedCompressionType(
                f"the batch at offset {entry.base_offset} is zstd: fetch version 10 is needed"
            )
        whole = view[entry.position : entry.position + entry.size]
        records, _, _, error = kernels.decode_records(
            whole, 0, first_offset, NO_END, True, max_decompressed_bytes, 1
        )
        if error is not None:
            raise error
        if records:
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
