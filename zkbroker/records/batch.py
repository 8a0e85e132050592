"""Record batches, magic 2: records to bytes and back. `layout` has the diagram.

Invariant: `decode_records` accepts exactly the bytes that hold `count` records and nothing more;
every length is checked against the bytes that are there before it is believed.
"""

from collections.abc import Iterable, Sequence

from zkbroker.errors import CorruptMessage
from zkbroker.records.checksum import crc32c
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from zkbroker.records.entries import Data
from zkbroker.records.layout import (
    BATCH,
    BATCH_HEADER_BYTES,
    CONTROL_BIT,
    CRC_V2_FROM,
    ENTRY_HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from zkbroker.records.record import EntryInfo, Headers, Record
from zkbroker.records.varint import VARINT_LIMIT, VARINTS, decode_varint, encode_varint

# key, value, timestamp, headers
Unsent = tuple[bytes | None, bytes | None, int, Headers]


def batch_payload(data: Data, entry: EntryInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the records of a batch, decompressed."""
    payload = memoryview(data)[entry.position + BATCH_HEADER_BYTES : entry.position + entry.size]
    if entry.codec:
        return decompress(entry.codec, payload, max_bytes=max_bytes)
    return bytes(payload)


def decode_batch(
    data: Data, entry: EntryInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """Decode the records of a batch, control records too.

    Raises:
        CorruptMessage: the records are not what the head says.
    """
    return decode_records(batch_payload(data, entry, max_bytes), entry)


def decode_records(buf: bytes, entry: EntryInfo) -> list[Record]:
    """Decode `entry.record_count` records from the uncompressed bytes.

    Raises:
        CorruptMessage: they do not fill the bytes exactly, or a length is wrong.
    """
    base_offset = entry.base_offset
    base_timestamp = entry.base_timestamp
    timestamp_type = entry.timestamp_type
    append_time = entry.max_timestamp if timestamp_type == 1 else None
    make = Record
    out: list[Record] = []
    add = out.append
    position = 0
    end = len(buf)
    try:
        for _ in range(entry.record_count):
            # Every varint is read in line for one and two bytes: these are nearly all there are,
            # and a call for each would double the time of the whole.
            low = buf[position]
            position += 1
            if low < 0x80:
                length = (low >> 1) ^ -(low & 1)
            elif (high := buf[position]) < 0x80:
                position += 1
                length = ((high << 6) | ((low & 0x7F) >> 1)) ^ -(low & 1)
            else:
                length, position = decode_varint(buf, position - 1, end)
            stop = position + length
            if length < 0 or stop > end:
                raise CorruptMessage(f"a record of {length} bytes with {end - position} left")
            position += 1  # attributes of a record: unused
            low = buf[position]
            position += 1
            if low < 0x80:
                timestamp = base_timestamp + ((low >> 1) ^ -(low & 1))
            else:
                delta, position = decode_varint(buf, position - 1, stop)
                timestamp = base_timestamp + delta
            low = buf[position]
            position += 1
            if low < 0x80:
                offset = base_offset + ((low >> 1) ^ -(low & 1))
            elif (high := buf[position]) < 0x80:
                position += 1
                offset = base_offset + (((high << 6) | ((low & 0x7F) >> 1)) ^ -(low & 1))
            else:
                delta, position = decode_varint(buf, position - 1, stop)
                offset = base_offset + delta
            low = buf[position]
            position += 1
            if low < 0x80:
                length = (low >> 1) ^ -(low & 1)
            else:
                length, position = decode_varint(buf, position - 1, stop)
            if length >= 0:
                key: bytes | None = buf[position : position + length]
                position += length
            elif length == -1:
                key = None
            else:
                raise CorruptMessage(f"a key of {length} bytes")
            low = buf[position]
            position += 1
            if low < 0x80:
                length = (low >> 1) ^ -(low & 1)
            elif (high := buf[position]) < 0x80:
                position += 1
                length = ((high << 6) | ((low & 0x7F) >> 1)) ^ -(low & 1)
            else:
                length, position = decode_varint(buf, position - 1, stop)
            if length >= 0:
                value: bytes | None = buf[position : position + length]
                position += length
            elif length == -1:
                value = None
            else:
                raise CorruptMessage(f"a value of {length} bytes")
            if position + 1 == stop and not buf[position]:
                position = stop
                headers: Headers = ()
            else:
                headers, position = _decode_headers(buf, position, stop)
                if position != stop:
                    raise CorruptMessage(f"a record ends {position - stop} bytes after its length")
            if append_time is not None:
                timestamp = append_time
            add(make(offset, timestamp, timestamp_type, key, value, headers))
    except IndexError as error:
        raise CorruptMessage("the records end before their count is reached") from error
    if position != end:
        raise CorruptMessage(f"{end - position} bytes after the last record of the batch")
    return out


def _decode_headers(buf: bytes, position: int, stop: int) -> tuple[Headers, int]:
    count, position = decode_varint(buf, position, stop)
    if count < 0 or count > stop - position:
        raise CorruptMessage(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = decode_varint(buf, position, stop)
        if length < 0 or length > stop - position:
            raise CorruptMessage(f"a header key of {length} bytes")
        try:
            name = buf[position : position + length].decode()
        except UnicodeDecodeError as error:
            raise CorruptMessage("a header key that is not UTF-8") from error
        position += length
        length, position = decode_varint(buf, position, stop)
        if length < -1 or length > stop - position:
            raise CorruptMessage(f"a header value of {length} bytes")
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, buf[position : position + length]))
            position += length
    return tuple(headers), position


def encode_records(records: Iterable[Unsent], base_timestamp: int) -> bytes:
    """Encode records with offset deltas 0, 1, 2 ..."""
    parts: list[bytes] = []
    add = parts.append
    table = VARINTS
    limit = VARINT_LIMIT
    for delta, (key, value, timestamp, headers) in enumerate(records):
        elapsed = timestamp - base_timestamp
        when = table[elapsed] if 0 <= elapsed < limit else encode_varint(elapsed)
        index = table[delta] if delta < limit else encode_varint(delta)
        if key is None:
            key = b""
            key_length = table[-1]
        else:
            size = len(key)
            key_length = table[size] if size < limit else encode_varint(size)
        if value is None:
            value = b""
            value_length = table[-1]
        else:
            size = len(value)
            value_length = table[size] if size < limit else encode_varint(size)
        tail = _encode_headers(headers) if headers else b"\x00"
        size = (
            1
            + len(when)
            + len(index)
            + len(key_length)
            + len(key)
            + len(value_length)
            + len(value)
            + len(tail)
        )
        add(table[size] if size < limit else encode_varint(size))
        add(b"\x00")
        add(when)
        add(index)
        add(key_length)
        add(key)
        add(value_length)
        add(value)
        add(tail)
    return b"".join(parts)


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        raw = name.encode()
        parts.append(encode_varint(len(raw)))
        parts.append(raw)
        if value is None:
            parts.append(VARINTS[-1])
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def build_batch(
    records: Sequence[Unsent],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = 0,
    append_time: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    partition_leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Build one batch from at least one record, offsets dense from `base_offset`.

    Args:
        records: key, value, timestamp in ms, headers.
        base_offset: of the first.
        codec: of the payload.
        level: of the codec.
        timestamp_type: 1 for LogAppendTime, with `append_time` as the batch's maximum.
        append_time: in ms.
        producer_id: with epoch and sequence: an idempotent producer's, else -1.
        producer_epoch: see `producer_id`.
        base_sequence: see `producer_id`.
        partition_leader_epoch: -1 as a producer sends it; the broker assigns it.
        is_transactional: part of a transaction.
        is_control: transaction markers.
    """
    base_timestamp = records[0][2]
    payload = encode_records(records, base_timestamp)
    if codec:
        payload = compress(codec, payload, level=level)
    max_timestamp = max(record[2] for record in records) if append_time is None else append_time
    attributes = codec | (TIMESTAMP_TYPE_BIT if timestamp_type == 1 else 0)
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    count = len(records)
    out = bytearray(BATCH_HEADER_BYTES + len(payload))
    BATCH.pack_into(
        out,
        0,
        base_offset,
        len(out) - ENTRY_HEADER_BYTES,
        partition_leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    out[BATCH_HEADER_BYTES:] = payload
    seal_batch(out)
    return bytes(out)


def seal_batch(batch: bytearray | memoryview) -> None:
    """Compute the CRC of a batch that fills the buffer."""
    crc = crc32c(memoryview(batch)[CRC_V2_FROM:])
    batch[17:21] = crc.to_bytes(4, "big")
