"""Deep walk: records out of any mix of magics, as a reader meets them in a fetch.

Invariant: what comes out are whole, verified records in log order; a partial entry at the end (the
fetch was cut there) is dropped without a word; control batches never come out.
"""

from collections.abc import Iterator

from zkbroker.records.batch import decode_batch
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data, iter_entries
from zkbroker.records.messages import decode_message, decode_wrapper
from zkbroker.records.record import EntryInfo, Record


def decode_entry(
    data: Data,
    entry: EntryInfo,
    *,
    verify_crc: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Decode the records of one entry, control records too; `verify_crc` is for inner messages.

    Raises:
        CorruptMessage: what is inside contradicts the head.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    if entry.magic == 2:
        return decode_batch(data, entry, max_bytes)
    if entry.codec:
        return decode_wrapper(data, entry, verify_crc=verify_crc, max_bytes=max_bytes)
    return [decode_message(data, entry)]


def iter_records(
    data: Data,
    *,
    verify_crc: bool = True,
    start_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Yield the records of a fetched or stored message set.

    Args:
        data: entries of any magic, one after the other.
        verify_crc: check every checksum, outer and inner.
        start_offset: records below it are left out (a batch holds more than was asked for).
        max_decompressed_bytes: the most one entry may expand to.

    Raises:
        CorruptMessage: a wrong checksum or malformed bytes; the records before it came out.
        MessageSizeTooLarge: an entry expands beyond the limit.
    """
    raw = data if isinstance(data, bytes) else bytes(data)
    for entry in iter_entries(raw, verify_crc=verify_crc):
        if entry.last_offset < start_offset or entry.is_control:
            continue
        records = decode_entry(raw, entry, verify_crc=verify_crc, max_bytes=max_decompressed_bytes)
        if entry.base_offset >= start_offset and records[0].offset >= start_offset:
            yield from records
        else:
            yield from (record for record in records if record.offset >= start_offset)
