"""Records of magic 2, in plain Python. `layout` has the diagram.

Invariant: `decode_payload` accepts only bytes that hold exactly the expected number of records.
"""

from collections.abc import Sequence

from zkbroker.errors import CorruptMessage
from zkbroker.records.entries import Data
from zkbroker.records.layout import BATCH_HEADER_BYTES, MAX_TIMESTAMP
from zkbroker.records.record import EntryInfo, Headers, Record, Unsent
from zkbroker.records.varint import VARINT_LIMIT, VARINTS, decode_varint, encode_varint


def decode_payload(buf: bytes, entry: EntryInfo) -> list[Record]:
    """Decode `entry.record_count` records from the uncompressed bytes.

    Raises:
        CorruptMessage: they do not fill the bytes exactly, or a length is wrong.
    """
    base_offset = entry.base_offset
    base_timestamp = entry.base_timestamp
    timestamp_type = entry.timestamp_type
    last_offset = entry.last_offset
    append_time = entry.max_timestamp if timestamp_type == 1 else None
    if not -MAX_TIMESTAMP <= base_timestamp <= MAX_TIMESTAMP:
        raise CorruptMessage(f"a base timestamp of {base_timestamp}")
    new = tuple.__new__  # half the time of the constructor
    out: list[Record] = []
    add = out.append
    position = 0
    end = len(buf)
    try:
        for _ in range(entry.record_count):
            # Varints of one and two bytes, which are nearly all, are decoded inline: a call for
            # each would double the total time.
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
                if not -MAX_TIMESTAMP <= delta <= MAX_TIMESTAMP:
                    raise CorruptMessage(f"a timestamp delta of {delta}")
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
            if not base_offset <= offset <= last_offset:
                raise CorruptMessage(f"an offset delta of {offset - base_offset}")
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
            add(new(Record, (offset, timestamp, timestamp_type, key, value, headers)))
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
        name = buf[position : position + length].decode("utf-8", "surrogateescape")
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


def scan_records(
    buf: Data, count: int, last_delta: int, base_timestamp: int
) -> tuple[int, int, int, bool]:
    """Check the records of a batch without decoding them into objects.

    Args:
        buf: uncompressed records.
        count: from the head.
        last_delta: the last offset delta, from the head.
        base_timestamp: in ms.

    Returns:
        Smallest timestamp other than -1 (-1 if there is none), largest timestamp, the index of the
        first record with it, and whether the offset deltas are 0, 1, 2 ...

    Raises:
        CorruptMessage: see `decode_payload`.
    """
    entry = EntryInfo(0, 0, 2, 0, 0, last_delta, base_timestamp, base_timestamp, 0, count, 0)
    records = decode_payload(bytes(buf), entry)
    timestamps = [record.timestamp for record in records]
    newest = max(timestamps, default=-1)
    return (
        min((timestamp for timestamp in timestamps if timestamp != -1), default=-1),
        newest,
        timestamps.index(newest) if timestamps else 0,
        all(record.offset == index for index, record in enumerate(records)),
    )


def place_batch(
    buffer: Data,
    position: int,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    epoch: int,
) -> tuple[EntryInfo, int] | None:
    """Verify a plain batch and assign its offsets, in one step if that is faster.

    Returns:
        Its head, and the index of the first record with the largest timestamp; or None, with
        nothing changed, for a batch that needs a closer check by the caller. In Python every batch
        does.
    """
    return None


def encode_records(records: Sequence[Unsent], base_timestamp: int) -> tuple[bytearray, int]:
    """Encode records with offset deltas 0, 1, 2 ...

    Returns:
        61 zero bytes for the head of the batch and the records; the largest timestamp.
    """
    parts: list[bytes] = [bytes(BATCH_HEADER_BYTES)]
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
    return bytearray().join(parts), max(record[2] for record in records)


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts.append(encode_varint(len(raw)))
        parts.append(raw)
        if value is None:
            parts.append(VARINTS[-1])
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)
