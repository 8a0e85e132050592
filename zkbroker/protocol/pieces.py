"""The pieces of encoded messages: bytes, and slices of files that are never copied."""

from typing import TypeAlias

from zkbroker.fileslice import FileSlice

Piece: TypeAlias = bytes | bytearray | memoryview | FileSlice
Records: TypeAlias = Piece | list[Piece] | None
