"""Answers of Kafka 0.7, written by a broker and read by a client; the layout stands in the package.

The error numbers are those that 0.8 went on with (`zkbroker.errors.ErrorCode`): -1 unknown, 0 none,
1 offset out of range, 2 invalid message, 3 wrong partition, 4 invalid fetch size.
"""

import struct
from collections.abc import Sequence
from typing import Final

from zkbroker.errors import ErrorCode, NetworkError

_HEAD: Final = struct.Struct(">ih")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")


def part_head(size: int, error: int = ErrorCode.NONE) -> bytes:
    """Return what stands before an answer, or before the part of a multifetch.

    Args:
        size: bytes that follow it.
        error: its error number.
    """
    return _HEAD.pack(2 + size, error)


def encode_answer(body: bytes = b"") -> bytes:
    """Return an answer without an error, with its length."""
    return part_head(len(body)) + body


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Return the body of an answer to an offsets request."""
    return struct.pack(f">i{len(offsets)}q", len(offsets), *offsets)


def decode_answer(frame: memoryview) -> tuple[int, memoryview]:
    """Split an answer without its length into error number and body.

    Raises:
        NetworkError: it is too short.
    """
    if len(frame) < _SHORT.size:
        raise NetworkError(f"an answer of {len(frame)} bytes is none of Kafka 0.7")
    return _SHORT.unpack_from(frame)[0], frame[_SHORT.size :]


def decode_offsets(body: memoryview) -> list[int]:
    """Read the offsets of an answer.

    Raises:
        NetworkError: it is not one.
    """
    if len(body) >= _INT.size:
        (count,) = _INT.unpack_from(body)
        if 0 <= count <= (len(body) - _INT.size) // 8:
            return list(struct.unpack_from(f">{count}q", body, _INT.size))
    raise NetworkError("a broken answer to an offsets request of Kafka 0.7")


def decode_multifetch(body: memoryview) -> list[tuple[int, memoryview]]:
    """Read the parts of an answer, each as error number and bytes, in the order asked for.

    Raises:
        NetworkError: it is not one.
    """
    parts: list[tuple[int, memoryview]] = []
    position = 0
    while position < len(body):
        if len(body) - position < _HEAD.size:
            raise NetworkError("a broken answer to a multifetch of Kafka 0.7")
        size, error = _HEAD.unpack_from(body, position)
        end = position + _INT.size + size
        if size < _SHORT.size or end > len(body):
            raise NetworkError("a broken answer to a multifetch of Kafka 0.7")
        parts.append((error, body[position + _HEAD.size : end]))
        position = end
    return parts
