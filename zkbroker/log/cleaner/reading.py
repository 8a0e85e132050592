"""Reading closed segments from their start to their end, in blocks of whole entries.

Invariant: memory is one block: as many bytes as the setting allows, or one entry that is larger.
"""

import os
from collections.abc import Callable
from typing import Protocol

from zkbroker.errors import CorruptMessage
from zkbroker.log import names
from zkbroker.log.segments.segment import Segment


class Taker(Protocol):
    """Takes the entries of a segment."""

    def take(self, block: bytes) -> int:
        """Take the whole entries of a block; returns the bytes taken, -1 for: no more."""


def read_segment(
    segment: Segment, taker: Taker, *, io_bytes: int, on_bytes: Callable[[int], None]
) -> None:
    """Have all entries of a segment taken.

    Args:
        segment: closed.
        taker: takes them.
        io_bytes: read at once.
        on_bytes: called with the size of each read; it may wait, or raise to end the reading.

    Raises:
        CorruptMessage: an entry is damaged or cut off.
        OSError: the disk failed.
    """
    position, look, size = 0, io_bytes, segment.size
    fd = segment.fs.open(segment.path(names.LOG), os.O_RDONLY)
    try:
        while position < size:
            block = os.pread(fd, min(look, size - position), position)
            on_bytes(len(block))
            taken = taker.take(block)
            if taken < 0:
                return
            if taken == 0:
                if len(block) < min(look, size - position) or len(block) == size - position:
                    raise CorruptMessage(
                        f"{segment.path(names.LOG)} ends within the entry at {position}"
                    )
                look *= 2
                continue
            look = io_bytes
            position += taken
    finally:
        segment.fs.close(fd)
