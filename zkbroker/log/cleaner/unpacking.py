"""Conversion of compressed entries into plain ones and back.

    magic 2     head without the codec, records decompressed; rebuilt with the same codec
    magic 0, 1  the message set inside; the rest of it is wrapped again with the same codec

Invariant: a packed entry has its former magic, codec, timestamp type and offsets. Messages of
another magic inside a wrapper, as some brokers wrote them, come out in the wrapper's magic.
"""

from zkbroker.errors import CorruptMessage
from zkbroker.records import Codec, EntryInfo, compress, kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data, seal_batch
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    ENTRY,
    ENTRY_HEADER_BYTES,
    INT32,
    MAGIC_AT,
    SIZE_AT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from zkbroker.records.messages import build_message_set, unsent
from zkbroker.records.payload import batch_payload, unwrap

_END = 2**63 - 1


def plain_batch(data: Data, entry: EntryInfo) -> bytearray:
    """Return the uncompressed form of a compressed batch.

    Raises:
        CorruptMessage: it cannot be decompressed.
    """
    head = data[entry.position : entry.position + BATCH_HEADER_BYTES]
    out = bytearray(head) + batch_payload(data, entry)
    _finish(out, Codec.NONE)
    return out


def packed_batch(plain: bytes, codec: Codec) -> bytearray:
    """Return the compressed form of an uncompressed batch."""
    payload = compress(codec, memoryview(plain)[BATCH_HEADER_BYTES:])
    out = bytearray(plain[:BATCH_HEADER_BYTES]) + payload
    _finish(out, codec)
    return out


def _finish(batch: bytearray, codec: Codec) -> None:
    attributes = batch[ATTRIBUTES_V2_LOW_AT] & ~CODEC_MASK
    batch[ATTRIBUTES_V2_LOW_AT] = attributes | codec
    INT32.pack_into(batch, SIZE_AT, len(batch) - ENTRY_HEADER_BYTES)
    seal_batch(batch)


def empty_batch(entry: EntryInfo) -> bytearray:
    """Return a batch with the offsets and the producer of another one, but without records."""
    attributes = TIMESTAMP_TYPE_BIT if entry.timestamp_type == 1 else 0
    if entry.is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if entry.is_control:
        attributes |= CONTROL_BIT
    out = bytearray(BATCH_HEADER_BYTES)
    BATCH.pack_into(
        out,
        0,
        entry.base_offset,
        BATCH_HEADER_BYTES - ENTRY_HEADER_BYTES,
        entry.partition_leader_epoch,
        2,
        0,
        attributes,
        entry.last_offset - entry.base_offset,
        -1,
        entry.max_timestamp,
        entry.producer_id,
        entry.producer_epoch,
        entry.base_sequence,
        0,
    )
    seal_batch(out)
    return out


def inner_set(data: Data, entry: EntryInfo) -> tuple[bytes, int]:
    """Return the message set inside a wrapper, and the shift that makes its offsets absolute.

    Raises:
        CorruptMessage: it cannot be decompressed, or is empty.
    """
    inner = unwrap(data, entry, MAX_DECOMPRESSED_BYTES)
    position, following, error = kernels.end_of_entries(inner)
    if position != len(inner) or not inner:
        raise CorruptMessage(f"malformed message set at offset {entry.last_offset}: {error}")
    return inner, 0 if entry.magic == 0 else entry.last_offset - (following - 1)


def has_other_magic(inner: bytes, magic: int) -> bool:
    """Whether a whole message set has a message of another magic."""
    position = 0
    while position < len(inner):
        if inner[position + MAGIC_AT] != magic:
            return True
        position += ENTRY.unpack_from(inner, position)[1] + ENTRY_HEADER_BYTES
    return False


def wrapped(messages: bytes, entry: EntryInfo, shift: int) -> bytes:
    """Wrap the rest of a message set as it was wrapped before.

    Args:
        messages: at least one.
        entry: the former wrapper.
        shift: makes their offsets absolute.
    """
    records, _, _, error = kernels.decode_records(
        messages, 0, -_END, _END, False, len(messages), _END
    )
    if error is not None:
        raise error
    return build_message_set(
        unsent(records),
        entry.magic,
        offsets=[record.offset + shift for record in records],
        codec=Codec(entry.codec),
        append_time=entry.max_timestamp if entry.timestamp_type == 1 else None,
    )
