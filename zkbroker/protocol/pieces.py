"""The pieces of an encoded message: bytes, and slices of files that are never copied."""

from typing import TypeAlias

from zkbroker.fileslice import FileSlice

Piece: TypeAlias = bytes | bytearray | memoryview | FileSlice
Records: TypeAlias = Piece | list[Piece] | None


def total_size(pieces: list[Piece]) -> int:
    """Return the size of the pieces on the wire, in bytes."""
    return sum(map(len, pieces))
