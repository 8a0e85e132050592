"""A range of an open file on its way from a log to a socket.

Invariant: the bytes of a slice never change while it is held. A log only appends, and a segment
file that is deleted or replaced stays open until every slice of it is closed. Whoever receives a
slice closes it exactly once, after the last byte was sent or the connection was lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing() -> None:
    """Release nothing: the default where the file stays open anyway."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes `[position, position + size)` of the file behind descriptor `fd`.

    Args:
        fd: a readable file descriptor; never seek on it, it is shared.
        position: first byte, from the start of the file.
        size: how many bytes; all of them exist when the slice is made.
        close: gives up the hold on the file; the slice must not be used afterwards.
    """

    fd: int
    position: int
    size: int
    close: Callable[[], None] = field(default=_nothing, compare=False, repr=False)

    def __len__(self) -> int:
        return self.size
