"""What messages are made of on their way out: bytes, and slices of files that are never copied."""

from typing import TypeAlias

from zkbroker.fileslice import FileSlice

Piece: TypeAlias = bytes | bytearray | memoryview | FileSlice
Records: TypeAlias = Piece | list[Piece] | None


def total_size(pieces: list[Piece]) -> int:
    """How many bytes the pieces are on the wire."""
    return sum(map(len, pieces))
