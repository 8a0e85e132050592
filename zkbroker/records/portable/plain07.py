"""Runs of uncompressed messages of Kafka 0.7; `zkbroker.records.legacy07` has the layout."""

import struct

from zkbroker.records.checksum import crc32
from zkbroker.records.entries import Data
from zkbroker.records.varint import encode_varint

_HEADS = (struct.Struct(">ibI"), struct.Struct(">ibbI"))
_LENGTH = struct.Struct(">i")
_CODEC_MASK = 3


def plain_messages(
    data: Data, position: int, kind: int, max_payload: int, limit: int, collect: bool
) -> tuple[int, int, list[bytes] | None]:
    """Walk through uncompressed messages with a right CRC, to the first other entry.

    Args:
        data: entries.
        position: of the first one.
        kind: the expected magic, 1 without any attributes; -1 accepts both, and attributes that
            name no codec.
        max_payload: a message with a larger payload ends the walk.
        limit: bytes after which the walk ends; it includes the message that reaches the limit.
        collect: return the payloads.

    Returns:
        The position after the last message, the number of messages, and their payloads.
    """
    view = memoryview(data)
    if not 0 <= position <= len(view):
        raise ValueError("position out of range")
    payloads: list[bytes] | None = [] if collect else None
    at, count, total = position, 0, len(view)
    while at - position < limit and total - at >= 9:
        magic = view[at + 4]
        if magic > 1 or (kind >= 0 and magic != kind):
            break
        head = _HEADS[magic]
        if total - at < head.size:
            break
        length, _, *attributes, crc = head.unpack_from(view, at)
        if length < 5 + magic or length > total - at - 4:
            break
        if magic and (attributes[0] if kind == 1 else attributes[0] & _CODEC_MASK):
            break
        payload = view[at + head.size : at + 4 + length]
        if len(payload) > max_payload or crc32(payload) != crc:
            break
        if payloads is not None:
            payloads.append(bytes(payload))
        count += 1
        at += 4 + length
    return at, count, payloads


def plain_records(data: Data, position: int, end: int, first_delta: int) -> bytes:
    """Return uncompressed messages as records of magic 2: no key, no headers, timestamp delta 0.

    Args:
        data: messages that `plain_messages` walked over.
        position: of the first one.
        end: after the last one.
        first_delta: offset delta of the first record.

    Raises:
        ValueError: these are not whole messages.
    """
    view = memoryview(data)
    if not 0 <= position <= end <= len(view):
        raise ValueError("position out of range")
    parts: list[Data] = []
    delta = first_delta
    while position < end:
        magic = view[position + 4] if end - position >= 9 else 2
        (length,) = _LENGTH.unpack_from(view, position) if magic < 2 else (0,)
        if length < 5 + magic or length > end - position - 4:
            raise ValueError("not a whole message")
        payload = view[position + 9 + magic : position + 4 + length]
        index, size = encode_varint(delta), encode_varint(len(payload))
        body = encode_varint(4 + len(index) + len(size) + len(payload))
        parts += (body, b"\0\0", index, b"\1", size, payload, b"\0")
        delta += 1
        position += 4 + length
    return b"".join(parts)
