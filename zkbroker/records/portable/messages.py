"""Messages of magic 0 and 1, in plain Python. `layout` has the diagram.

Invariant: a wrapper contains whole, uncompressed messages. In wrappers that are built here or sent
by a producer, they have the wrapper's magic. Stored ones may have another magic: then the wrapper's
magic determines the meaning of their offsets, and each message's own magic determines its layout.
"""

from collections.abc import Sequence
from typing import Final

from zkbroker.errors import CorruptMessage
from zkbroker.records.checksum import crc32
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data
from zkbroker.records.layout import (
    ATTRIBUTES_V01_AT,
    CODEC_MASK,
    CRC_V01_AT,
    ENTRY_HEADER_BYTES,
    INT32,
    MAGIC_AT,
    MAX_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_SIZE_V0,
    MIN_SIZE_V1,
    OFFSET,
    TIMESTAMP_TYPE_BIT,
    TIMESTAMP_V1_AT,
    UINT32,
)
from zkbroker.records.payload import split_message, unwrap
from zkbroker.records.record import NO_TIMESTAMP, NO_TIMESTAMP_TYPE, EntryInfo, Record, Unsent

# Attributes that a plain message does not have: a codec, LogAppendTime.
_NOT_PLAIN: Final = CODEC_MASK | TIMESTAMP_TYPE_BIT
# Records of one run, which are returned as a list.
_RUN_MESSAGES: Final = 1024
_NULL: Final = b"\xff\xff\xff\xff"


def encode_message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """Encode one message; `timestamp` in ms counts only for magic 1."""
    key_size = -1 if key is None else len(key)
    tail = _NULL if value is None else INT32.pack(len(value)) + value
    body = (key or b"") + tail
    if magic == 1:
        size = MESSAGE_V1.size - ENTRY_HEADER_BYTES + len(body)
        head = MESSAGE_V1.pack(offset, size, 0, 1, attributes, timestamp, key_size)
    else:
        size = MESSAGE_V0.size - ENTRY_HEADER_BYTES + len(body)
        head = MESSAGE_V0.pack(offset, size, 0, 0, attributes, key_size)
    crc = crc32(head[MAGIC_AT:] + body)
    return b"".join((head[:CRC_V01_AT], crc.to_bytes(4, "big"), head[MAGIC_AT:], body))


def encode_messages(
    records: Sequence[Unsent],
    magic: int,
    base_offset: int,
    offsets: Sequence[int] | None,
    append_time: int | None,
) -> bytes:
    """Encode messages with dense offsets from `base_offset`, or with the given ones."""
    stamp = 0 if append_time is None else TIMESTAMP_TYPE_BIT
    numbers = range(base_offset, base_offset + len(records)) if offsets is None else offsets
    return b"".join(
        [
            encode_message(
                magic,
                offset,
                key,
                value,
                timestamp if append_time is None else append_time,
                stamp,
            )
            for offset, (key, value, timestamp, _) in zip(numbers, records, strict=True)
        ]
    )


def end_of_plain(data: Data, position: int, max_bytes: int) -> int:
    """Return the position of the first entry that is not a whole, uncompressed message, or the end.

    Only heads are checked: the contents may be damaged.

    Args:
        data: entries.
        position: of the first one.
        max_bytes: the run ends before a larger message.

    Raises:
        ValueError: the position is not in the data.
    """
    end = len(data)
    if not 0 <= position <= end:
        raise ValueError("position out of range")
    smallest = MESSAGE_V0.size + 4, MESSAGE_V1.size + 4
    while end - position >= smallest[0]:
        size = INT32.unpack_from(data, position + OFFSET.size)[0] + ENTRY_HEADER_BYTES
        magic = data[position + MAGIC_AT]
        if (
            magic > 1
            or data[position + ATTRIBUTES_V01_AT] & CODEC_MASK
            or not smallest[magic] <= size <= min(max_bytes, end - position)
        ):
            break
        position += size
    return position


def assign_messages(
    buffer: memoryview,
    position: int,
    magic: int,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    append_time: int | None,
) -> tuple[int, int, int, int]:
    """Verify uncompressed messages of one magic and assign their offsets in place.

    Stops at the end or before the first message that needs a closer check by the caller, for
    whatever reason. The producer's offsets are ignored: clients write 0, a count or -1 there.

    Args:
        buffer: writable.
        position: of the first message.
        magic: 0 or 1.
        next_offset: for the first message.
        max_bytes: stop before a larger message.
        earliest: stop before a lower timestamp, other than -1.
        latest: stop before a higher timestamp.
        append_time: put into every message, with the type LogAppendTime.

    Returns:
        The position reached, the number of messages, the largest timestamp, and the index of the
        first message with it.
    """
    head = MESSAGE_V1.size if magic == 1 else MESSAGE_V0.size
    unpack = (MESSAGE_V1 if magic == 1 else MESSAGE_V0).unpack_from
    smallest = head + 4
    put = OFFSET.pack_into
    length_at = INT32.unpack_from
    end = len(buffer)
    count = 0
    newest = NO_TIMESTAMP
    newest_at = 0
    timestamp = NO_TIMESTAMP
    while end - position >= smallest:
        if magic == 1:
            _, size, crc, found, attributes, timestamp, key_size = unpack(buffer, position)
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                break
        else:
            _, size, crc, found, attributes, key_size = unpack(buffer, position)
        stop = position + ENTRY_HEADER_BYTES + size
        if (
            found != magic
            or attributes & _NOT_PLAIN
            or stop > end
            or not smallest <= size + ENTRY_HEADER_BYTES <= max_bytes
        ):
            break
        value_at = position + smallest + (max(0, key_size))
        if key_size < -1 or value_at > stop:
            break
        (value_size,) = length_at(buffer, value_at - 4)
        if value_size < -1 or value_at + (max(0, value_size)) != stop:
            break
        if crc32(buffer[position + MAGIC_AT : stop]) != crc:
            break
        put(buffer, position, next_offset + count)
        if append_time is not None and magic == 1:
            timestamp = append_time
            buffer[position + ATTRIBUTES_V01_AT] |= TIMESTAMP_TYPE_BIT
            put(buffer, position + TIMESTAMP_V1_AT, append_time)
            crc = crc32(buffer[position + MAGIC_AT : stop])
            UINT32.pack_into(buffer, position + CRC_V01_AT, crc)
        if timestamp > newest:
            newest = timestamp
            newest_at = count
        count += 1
        position = stop
    return position, count, newest, newest_at


def decode_message(data: Data, entry: EntryInfo) -> Record:
    """Decode an uncompressed message."""
    key_at, key_size, value_at, value_size = split_message(
        data, entry.position, entry.size, entry.magic
    )
    return Record(
        entry.base_offset,
        entry.max_timestamp,
        entry.timestamp_type,
        None if key_size < 0 else bytes(data[key_at : key_at + key_size]),
        None if value_size < 0 else bytes(data[value_at : value_at + value_size]),
    )


def decode_plain(
    data: bytes,
    view: memoryview,
    position: int,
    start: int,
    end: int,
    verify: bool,
    max_records: int,
) -> tuple[list[Record], int, int]:
    """Decode a run of uncompressed messages of one magic, at most 1024.

    Stops before the first message that needs a closer check by the caller, for whatever reason, or
    that has an offset of at least `end`.

    Args:
        data: entries, the first of them of magic 0 or 1.
        view: of the same bytes.
        position: of the first message.
        start: records below this offset are left out.
        end: the first unwanted offset.
        verify: check the CRC.
        max_records: at least one; the run ends with the message that reaches it.

    Returns:
        The records, the position reached, the highest offset passed (-1 for none).
    """
    magic = data[position + MAGIC_AT]
    head = MESSAGE_V1.size if magic == 1 else MESSAGE_V0.size
    unpack = (MESSAGE_V1 if magic == 1 else MESSAGE_V0).unpack_from
    length_at = INT32.unpack_from
    timestamp = NO_TIMESTAMP
    timestamp_type = NO_TIMESTAMP_TYPE
    last = -1
    stop_at = len(data) - head - 4
    out: list[Record] = []
    add = out.append
    new = tuple.__new__  # half the time of the constructor
    for _ in range(_RUN_MESSAGES):
        if position > stop_at or len(out) >= max_records:
            break
        if magic == 1:
            offset, size, crc, found, attributes, timestamp, key_size = unpack(data, position)
            timestamp_type = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
        else:
            offset, size, crc, found, attributes, key_size = unpack(data, position)
        stop = position + ENTRY_HEADER_BYTES + size
        key_at = position + head
        value_at = key_at + 4 + (max(0, key_size))
        if (
            found != magic
            or attributes & CODEC_MASK
            or stop > stop_at + head + 4
            or value_at > stop
            or key_size < -1
            or not 0 <= offset <= MAX_OFFSET
            or offset >= end
        ):
            break
        (value_size,) = length_at(data, value_at - 4)
        if value_size < -1 or value_at + (max(0, value_size)) != stop:
            break
        if verify and crc32(view[position + MAGIC_AT : stop]) != crc:
            break
        if offset > last:
            last = offset
        if offset >= start:
            key = data[key_at : value_at - 4] if key_size >= 0 else None
            value = data[value_at:stop] if value_size >= 0 else None
            add(new(Record, (offset, timestamp, timestamp_type, key, value, ())))
        position = stop
    return out, position, last


def decode_wrapper(
    data: Data,
    entry: EntryInfo,
    *,
    verify_crc: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Decode the messages inside a compressed message; their offsets are made absolute.

    Cleaners of 0.10.0 and 0.10.1.0 left wrappers around messages of another magic (KAFKA-4298).
    They are read as in newer brokers and clients.

    Raises:
        CorruptMessage: nested compression, a wrong inner checksum, no messages inside.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    inner = unwrap(data, entry, max_bytes)
    records = decode_inner(inner, None, verify_crc=verify_crc)
    if entry.magic == 0:
        return records
    shift = entry.last_offset - records[-1].offset
    offsets = [record.offset for record in records]
    if min(offsets) + shift < -(2**63) or max(offsets) + shift >= 2**63:
        raise CorruptMessage(f"inner offsets of the message at offset {entry.last_offset}")
    if entry.timestamp_type == 1:
        return [
            Record(
                offset + shift,
                *((timestamp, kind) if kind == NO_TIMESTAMP_TYPE else (entry.max_timestamp, 1)),
                key,
                value,
            )
            for offset, timestamp, kind, key, value, _ in records
        ]
    if not shift:
        return records
    return [
        Record(offset + shift, timestamp, kind, key, value)
        for offset, timestamp, kind, key, value, _ in records
    ]


def decode_inner(buf: bytes, magic: int | None, *, verify_crc: bool = True) -> list[Record]:
    """Decode the messages of a decompressed set, with their stored offsets.

    Args:
        buf: the set.
        magic: 0 or 1, which all of them must have; None accepts both.
        verify_crc: check their checksums.

    Raises:
        CorruptMessage: nested compression, another magic, a wrong checksum, no messages.
    """
    out: list[Record] = []
    new = tuple.__new__
    position = 0
    end = len(buf)
    view = memoryview(buf)
    unpack_v0, unpack_v1 = MESSAGE_V0.unpack_from, MESSAGE_V1.unpack_from
    value_unpack = INT32.unpack_from
    while position < end:
        if end - position < MESSAGE_V0.size + 4:
            raise CorruptMessage("a compressed message set ends within a message")
        found = buf[position + MAGIC_AT]
        if found > 1 or magic not in (None, found):
            raise CorruptMessage(f"a message of magic {found} inside one of magic {magic}")
        if found == 1:
            if end - position < MESSAGE_V1.size + 4:
                raise CorruptMessage("a compressed message set ends within a message")
            offset, size, crc, _, attributes, timestamp, key_size = unpack_v1(buf, position)
            timestamp_type = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
            head, smallest = MESSAGE_V1.size, MIN_SIZE_V1
        else:
            offset, size, crc, _, attributes, key_size = unpack_v0(buf, position)
            timestamp, timestamp_type = NO_TIMESTAMP, NO_TIMESTAMP_TYPE
            head, smallest = MESSAGE_V0.size, MIN_SIZE_V0
        if attributes & CODEC_MASK:
            raise CorruptMessage("a compressed message inside a compressed message")
        stop = position + ENTRY_HEADER_BYTES + size
        if size < smallest or stop > end:
            raise CorruptMessage(f"a message of {size} bytes inside a set of {end}")
        if verify_crc and crc32(view[position + MAGIC_AT : stop]) != crc:
            raise CorruptMessage(f"CRC of an inner message at offset {offset}")
        position += head
        if key_size < 0:
            if key_size != -1:
                raise CorruptMessage(f"a key of {key_size} bytes")
            key = None
        else:
            key = buf[position : position + key_size]
            position += key_size
        if position + 4 > stop:
            raise CorruptMessage(f"a key of {key_size} bytes in a message of {size}")
        (value_size,) = value_unpack(buf, position)
        position += 4
        if value_size < 0:
            value = None
            if value_size != -1:
                raise CorruptMessage(f"a value of {value_size} bytes")
        else:
            value = buf[position : position + value_size]
            position += value_size
        if position != stop:
            raise CorruptMessage(f"a value of {value_size} bytes in a message of {size}")
        out.append(new(Record, (offset, timestamp, timestamp_type, key, value, ())))
    if not out:
        raise CorruptMessage("a compressed message with nothing inside")
    return out
