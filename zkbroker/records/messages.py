"""Message sets of magic 0 and 1: messages to bytes and back. `layout` has the diagram.

A compressed message's value is itself a message set, one level deep:

    magic 0     inner offsets are absolute
    magic 1     inner offsets are relative to the first, 0, 1, 2 ...; the wrapper's offset is the
                last one's, its timestamp the largest; a wrapper with LogAppendTime gives its
                timestamp to all inside

Invariant: inside a wrapper there are whole, uncompressed messages of the wrapper's magic only.
"""

from collections.abc import Iterable, Sequence

from zkbroker.errors import CorruptMessage
from zkbroker.records.checksum import crc32
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from zkbroker.records.entries import Data
from zkbroker.records.layout import (
    CODEC_MASK,
    CRC_V01_AT,
    ENTRY_HEADER_BYTES,
    INT32,
    MAGIC_AT,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_SIZE_V0,
    MIN_SIZE_V1,
    TIMESTAMP_TYPE_BIT,
)
from zkbroker.records.record import NO_TIMESTAMP, NO_TIMESTAMP_TYPE, EntryInfo, Record

_NULL = b"\xff\xff\xff\xff"


def encode_message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """Encode one message; `timestamp` in ms is for magic 1."""
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


def build_message_set(
    records: Sequence[tuple[int, bytes | None, bytes | None, int]],
    magic: int,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    append_time: int | None = None,
) -> bytes:
    """Build a message set, wrapped into one message if there is a codec.

    Args:
        records: offset, key, value, timestamp in ms; at least one, offsets rising.
        magic: 0 or 1.
        codec: of the wrapper.
        level: of the codec.
        append_time: magic 1: the type is LogAppendTime and this is the time, in ms.
    """
    stamp = 0 if append_time is None else TIMESTAMP_TYPE_BIT
    if magic == 0:
        stamp = 0
    first = records[0][0] if codec and magic == 1 else 0
    # Genuine brokers stamp the inner messages of a wrapper they write as well.
    parts = [
        encode_message(
            magic,
            offset - first,
            key,
            value,
            timestamp if append_time is None else append_time,
            stamp,
        )
        for offset, key, value, timestamp in records
    ]
    body = b"".join(parts)
    if not codec:
        return body
    newest = max(record[3] for record in records) if append_time is None else append_time
    payload = compress(codec, body, level=level, magic=magic)
    return encode_message(magic, records[-1][0], None, payload, newest, codec | stamp)


def split_message(data: Data, position: int, size: int, magic: int) -> tuple[int, int, int, int]:
    """Find key and value of a message: key start, key length, value start, value length.

    Raises:
        CorruptMessage: the lengths do not fill the message exactly.
    """
    head = MESSAGE_V1.size if magic == 1 else MESSAGE_V0.size
    key_at = position + head
    key_size = INT32.unpack_from(data, key_at - 4)[0]
    end = position + size
    value_at = key_at + max(key_size, 0) + 4
    if key_size < -1 or value_at > end:
        raise CorruptMessage(f"a key of {key_size} bytes in a message of {size}")
    value_size = INT32.unpack_from(data, value_at - 4)[0]
    if value_size < -1 or value_at + max(value_size, 0) != end:
        raise CorruptMessage(f"a value of {value_size} bytes in a message of {size}")
    return key_at, key_size, value_at, value_size


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


def unwrap(data: Data, entry: EntryInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the message set inside a compressed message.

    Raises:
        CorruptMessage: there is none, or it cannot be decompressed.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    _, _, value_at, value_size = split_message(data, entry.position, entry.size, entry.magic)
    if value_size < 0:
        raise CorruptMessage(f"a compressed message without a value at offset {entry.last_offset}")
    if entry.codec == Codec.ZSTD:
        raise CorruptMessage(f"zstd in magic {entry.magic}: it exists in magic 2 only")
    payload = memoryview(data)[value_at : value_at + value_size]
    return decompress(entry.codec, payload, max_bytes=max_bytes)


def decode_wrapper(
    data: Data,
    entry: EntryInfo,
    *,
    verify_crc: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Decode the messages inside a compressed message, offsets as stored there made absolute.

    Raises:
        CorruptMessage: nested compression, mixed magic, a wrong inner checksum, nothing inside.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    inner = unwrap(data, entry, max_bytes)
    records = decode_inner(inner, entry.magic, verify_crc=verify_crc)
    if entry.magic == 0:
        return records
    shift = entry.last_offset - records[-1].offset
    if entry.timestamp_type == 1:
        return [
            Record(offset + shift, entry.max_timestamp, 1, key, value)
            for offset, _, _, key, value, _ in records
        ]
    if not shift:
        return records
    return [
        Record(offset + shift, timestamp, kind, key, value)
        for offset, timestamp, kind, key, value, _ in records
    ]


def decode_inner(buf: bytes, magic: int, *, verify_crc: bool = True) -> list[Record]:
    """Decode the messages of a decompressed set, offsets as they stand there."""
    out: list[Record] = []
    position = 0
    end = len(buf)
    view = memoryview(buf)
    smallest = MIN_SIZE_V1 if magic == 1 else MIN_SIZE_V0
    layout = MESSAGE_V1 if magic == 1 else MESSAGE_V0
    unpack = layout.unpack_from
    head = layout.size
    value_unpack = INT32.unpack_from
    timestamp = NO_TIMESTAMP
    timestamp_type = NO_TIMESTAMP_TYPE
    while position < end:
        if end - position < head + 4:
            raise CorruptMessage("a compressed message set ends within a message")
        if magic == 1:
            offset, size, crc, inner_magic, attributes, timestamp, key_size = unpack(buf, position)
            timestamp_type = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
        else:
            offset, size, crc, inner_magic, attributes, key_size = unpack(buf, position)
        if inner_magic != magic:
            raise CorruptMessage(f"a message of magic {inner_magic} inside one of magic {magic}")
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
        out.append(Record(offset, timestamp, timestamp_type, key, value))
    if not out:
        raise CorruptMessage("a compressed message with nothing inside")
    return out


def rows(records: Iterable[Record]) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """Turn records into what `build_message_set` takes."""
    return [(record.offset, record.key, record.value, record.timestamp) for record in records]
