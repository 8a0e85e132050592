"""Reading closed segments from their start to their end, in blocks of whole entries.

Invariant: one block is in memory: as many bytes as the setting allows, or one larger entry. A block
is processed in small steps: between two of them the pass may wait or end.
"""

import os
from collections.abc import Callable

from zkbroker.errors import CorruptMessage
from zkbroker.log import names
from zkbroker.log.segments.segment import Segment
from zkbroker.records.entries import Data

_STEP_BYTES = 16 * 1024


def read_segment(
    segment: Segment,
    take: Callable[[Data], int],
    *,
    io_bytes: int,
    on_bytes: Callable[[int], None],
) -> None:
    """Pass all entries of a segment to a function.

    Args:
        segment: closed.
        take: processes the whole entries of a block; returns their bytes, -1 to end the reading.
        io_bytes: how much to read at once.
        on_bytes: called with the size of each read, and with 0 between two steps; it may wait, or
            raise to end the reading.

    Raises:
        CorruptMessage: an entry is damaged or incomplete.
        OSError: the disk failed.
    """
    position, look, size = 0, io_bytes, segment.size
    fd = segment.fs.open(segment.path(names.LOG), os.O_RDONLY)
    try:
        while position < size:
            block = os.pread(fd, min(look, size - position), position)
            on_bytes(len(block))
            taken = _take_in_steps(take, block, on_bytes)
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


def _take_in_steps(
    take: Callable[[Data], int], block: bytes, on_bytes: Callable[[int], None]
) -> int:
    view = memoryview(block)
    position, step = 0, _STEP_BYTES
    while position < len(block):
        taken = take(view[position : position + step])
        if taken < 0:
            return taken
        if taken:
            position += taken
            step = _STEP_BYTES
            on_bytes(0)
        elif position + step >= len(block):
            break
        else:
            # The entry is larger than a step.
            step *= 2
    return position
