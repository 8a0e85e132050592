"""Zig-zag variable-length integers of magic 2 (protobuf's sint32 and sint64).

    value -> zig-zag (0, -1, 1, -2 ... -> 0, 1, 2, 3 ...) -> groups of 7 bits, lowest first; the
    high bit of a byte means that another follows; at most 5 bytes for an int32, 10 for an int64

Invariant: small values, which are nearly all, come from one table.
"""

from typing import Final

from zkbroker.errors import CorruptMessage

_TABLE_TOP: Final = 8192


def _encode(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


# VARINTS[v] for 0 <= v < 8192; VARINTS[-1] is the encoding of -1, the length of a null.
VARINTS: Final = (*(_encode(value) for value in range(_TABLE_TOP)), _encode(-1))
VARINT_LIMIT: Final = _TABLE_TOP


def encode_varint(value: int) -> bytes:
    """Encode an integer of at most 64 bits."""
    return VARINTS[value] if -1 <= value < _TABLE_TOP else _encode(value)


def decode_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Decode the integer at `position`.

    Returns:
        The value and the position after it.

    Raises:
        CorruptMessage: it runs past `end` or is longer than ten bytes.
    """
    zigzag = 0
    shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> 64:
                break
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7
    raise CorruptMessage(f"malformed varint at byte {position}")
