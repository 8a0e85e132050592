"""LZ4 frames, and the header checksum that Kafka computed wrongly before magic 1.

    magic:uint32le 0x184D2204  flags:int8  descriptor:int8  [content size:8]  [dictionary id:4]
    checksum:int8  blocks  end mark

The checksum byte is the second byte of xxHash-32 over flags..dictionary id. Up to magic 0 Kafka
hashed the frame's magic number as well. The checksum is written wrongly for magic 0 and rightly
otherwise; both are read everywhere. Frames are written with independent 64 KiB blocks and without
content size: the Java reader of 0.8.2 knows nothing else.
"""

import struct
from typing import Final

import lz4.frame

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAG_CONTENT_SIZE: Final = 0x08
_FLAG_DICTIONARY: Final = 0x01
_MASK: Final = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3 = 2654435761, 2246822519, 3266489917
_PRIME_4, _PRIME_5 = 668265263, 374761393


def compress(
    data: bytes | bytearray | memoryview, *, level: int | None = None, legacy_checksum: bool = False
) -> bytes:
    """Compress into one frame; `legacy_checksum` for magic 0."""
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if not legacy_checksum:
        return frame
    return frame[:6] + bytes((_header_checksum(frame[:6]),)) + frame[7:]


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress one frame with either checksum; stops just above `max_bytes`.

    Raises:
        ValueError: it is no frame, has neither checksum, or is incomplete.
        RuntimeError: the library found a broken block.
    """
    head = bytes(data[:19])
    if len(head) < 7 or head[:4] != _FRAME_MAGIC:
        raise ValueError("not an LZ4 frame")
    flags = head[4]
    size = 6 + (8 if flags & _FLAG_CONTENT_SIZE else 0) + (4 if flags & _FLAG_DICTIONARY else 0)
    if len(head) <= size:
        raise ValueError("the LZ4 frame header is cut off")
    right = _header_checksum(head[4:size])
    found = head[size]
    if found != right:
        if found != _header_checksum(head[:size]):
            raise ValueError("the LZ4 frame header checksum is wrong")
        fixed = bytearray(data)
        fixed[size] = right
        data = memoryview(fixed)
    stream = lz4.frame.LZ4FrameDecompressor()
    out: bytes = stream.decompress(data, max_length=max_bytes + 1)
    if not stream.eof and len(out) <= max_bytes:
        raise ValueError("the LZ4 frame is cut off")
    return out


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def _header_checksum(header: bytes) -> int:
    return (_xxhash32(header) >> 8) & 0xFF


def _xxhash32(data: bytes) -> int:
    """xxHash-32 with seed 0 (headers are 2 to 18 bytes)."""
    length = len(data)
    position = 0
    if length >= 16:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while position <= length - 16:
            for lane, word in enumerate(struct.unpack_from("<4I", data, position)):
                lanes[lane] = (
                    _rotate((lanes[lane] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
                )
            position += 16
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = _PRIME_5
    value = (value + length) & _MASK
    while position <= length - 4:
        (word,) = struct.unpack_from("<I", data, position)
        value = _rotate((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        position += 4
    for byte in data[position:]:
        value = _rotate((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ (value >> 15)) * _PRIME_2 & _MASK
    value = (value ^ (value >> 13)) * _PRIME_3 & _MASK
    return value ^ (value >> 16)
