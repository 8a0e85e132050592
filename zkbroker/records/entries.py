"""The head of one entry; the records inside are not decoded.

Invariant: `read_head` never reads beyond the data. It raises `PartialEntry` exactly if more bytes
could complete the entry, and `CorruptMessage` if no further byte could.
"""

from zkbroker.errors import CorruptMessage
from zkbroker.records.checksum import crc32, crc32c
from zkbroker.records.layout import (
    BATCH,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_V2_AT,
    CRC_V2_FROM,
    ENTRY,
    ENTRY_HEADER_BYTES,
    INT32,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    MAX_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_SIZE_V0,
    MIN_SIZE_V1,
    MIN_SIZE_V2,
    OFFSET,
    SMALLEST_HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    UINT32,
)
from zkbroker.records.record import NO_TIMESTAMP, NO_TIMESTAMP_TYPE, EntryInfo, PartialEntry

Data = bytes | bytearray | memoryview

_MIN_SIZES = (MIN_SIZE_V0, MIN_SIZE_V1, MIN_SIZE_V2)


def read_head(data: Data, position: int = 0, *, sent: bool = False) -> EntryInfo:
    """Read the head of the entry at a position; the entry must be whole.

    Args:
        data: holds the entry.
        position: of the entry, in bytes.
        sent: a producer sent it: its offset is ignored (some write -1) and counts as 0.

    Raises:
        PartialEntry: the data end before the entry does.
        CorruptMessage: the head is impossible (size, magic, counts).
    """
    left = len(data) - position
    if left < SMALLEST_HEADER_BYTES:
        raise PartialEntry(f"{left} bytes are less than the head of an entry")
    offset, size = ENTRY.unpack_from(data, position)
    magic = data[position + MAGIC_AT]
    if magic > 2:
        raise CorruptMessage(f"magic {magic} at position {position}: not 0, 1 or 2")
    if size < _MIN_SIZES[magic]:
        raise CorruptMessage(f"size {size} at position {position}: too small for magic {magic}")
    size += ENTRY_HEADER_BYTES
    if size > left:
        raise PartialEntry(f"an entry of {size} bytes at position {position}, {left} are left")
    # Checked after the size: a genuine 2.x broker ends a converted answer with a filler, of offset
    # -1 and larger than the rest of the answer, which must look like a partial entry.
    if sent:
        offset = 0
    elif not 0 <= offset <= MAX_OFFSET:
        raise CorruptMessage(f"offset {offset} at position {position}")
    if magic == 2:
        return _batch_head(data, position, size, offset)
    timestamp = NO_TIMESTAMP
    timestamp_type = NO_TIMESTAMP_TYPE
    if magic == 1:
        _, _, crc, _, attributes, timestamp, _ = MESSAGE_V1.unpack_from(data, position)
        timestamp_type = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
    else:
        _, _, crc, _, attributes, _ = MESSAGE_V0.unpack_from(data, position)
    codec = attributes & CODEC_MASK
    return EntryInfo(
        position,
        size,
        magic,
        codec,
        offset,
        offset,
        timestamp,
        timestamp,
        timestamp_type,
        -1 if codec else 1,
        crc,
    )


def _batch_head(data: Data, position: int, size: int, base_offset: int) -> EntryInfo:
    (
        _,
        _,
        leader_epoch,
        _,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = BATCH.unpack_from(data, position)
    if last_delta < 0 or count < 0:
        raise CorruptMessage(
            f"batch at position {position}: last offset delta {last_delta}, count {count}"
        )
    return EntryInfo(
        position,
        size,
        2,
        attributes & CODEC_MASK,
        base_offset,
        base_offset + last_delta,
        base_timestamp,
        max_timestamp,
        1 if attributes & TIMESTAMP_TYPE_BIT else 0,
        count,
        crc,
        producer_id,
        producer_epoch,
        base_sequence,
        bool(attributes & CONTROL_BIT),
        bool(attributes & TRANSACTIONAL_BIT),
        leader_epoch,
    )


def check_crc(data: memoryview, entry: EntryInfo) -> None:
    """Raise CorruptMessage unless the entry's checksum is right."""
    end = entry.position + entry.size
    if entry.magic == 2:
        found = crc32c(data[entry.position + CRC_V2_FROM : end])
    else:
        found = crc32(data[entry.position + MAGIC_AT : end])
    if found != entry.crc:
        raise CorruptMessage(
            f"CRC of the entry at position {entry.position}, offset {entry.base_offset}: "
            f"stored {entry.crc}, computed {found}"
        )


def set_offsets(
    buffer: bytearray | memoryview,
    position: int,
    base_offset: int,
    partition_leader_epoch: int | None = None,
) -> None:
    """Set base offset (and leader epoch) of a magic-2 batch in place; no CRC covers them."""
    OFFSET.pack_into(buffer, position, base_offset)
    if partition_leader_epoch is not None:
        INT32.pack_into(buffer, position + LEADER_EPOCH_AT, partition_leader_epoch)


def seal_batch(batch: bytearray | memoryview) -> None:
    """Compute the CRC of a batch that fills the buffer."""
    UINT32.pack_into(batch, CRC_V2_AT, crc32c(memoryview(batch)[CRC_V2_FROM:]))
