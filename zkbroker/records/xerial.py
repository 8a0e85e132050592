r"""Snappy in the framing of xerial's SnappyOutputStream, which Kafka's clients use.

    \x82SNAPPY\x00  version:int32  compatible:int32  { length:int32  raw snappy block }*

Invariant: data is written in this framing (before 0.11 the Java clients read nothing else), and
read in this framing or as one raw snappy block, which librdkafka and others write.
"""

import struct
from typing import Final

import snappy

from zkbroker.errors import MessageSizeTooLarge

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")


def compress(data: bytes | bytearray | memoryview) -> bytes:
    """Compress into framed blocks of 32 KiB each, the block size of the Java library."""
    parts = [_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _BLOCK_BYTES):
        block = snappy.compress(view[start : start + _BLOCK_BYTES])
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress either form.

    Raises:
        ValueError: it is malformed.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    view = memoryview(data)
    if bytes(view[:8]) != _MAGIC:
        return _raw(view, max_bytes)
    parts: list[bytes] = []
    position = len(_HEADER)
    end = len(view)
    if end < position:
        raise ValueError("the snappy header is cut off")
    room = max_bytes
    while position < end:
        if end - position < _LENGTH.size:
            raise ValueError("a snappy block length is cut off")
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        if length < 0 or length > end - position:
            raise ValueError(f"a snappy block of {length} bytes with {end - position} left")
        part = _raw(view[position : position + length], room)
        room -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _raw(block: memoryview, max_bytes: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise ValueError("not a snappy block")
    if size > max_bytes:
        raise MessageSizeTooLarge(f"a compressed entry expands beyond {max_bytes} bytes")
    # A block of n bytes cannot expand to more than about 64 times n. The library would allocate a
    # larger claimed size.
    if size > 100 * len(block) + 64:
        raise ValueError(f"a snappy block of {len(block)} bytes claims to hold {size}")
    try:
        out: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise ValueError(f"a malformed snappy block of {len(block)} bytes") from error
    return out
