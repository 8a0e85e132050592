"""Sets of offsets as `[start, until)` runs, and operations on them.

Invariant: the runs from `joined` and `minus` are ascending, disjoint and do not touch.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

Runs = list[tuple[int, int]]


def runs(offsets: pa.Array) -> Runs:
    """Return ascending offsets as `[start, until)` runs; a repeated one starts a new run."""
    count = len(offsets)
    if count == 0:
        return []
    steps = pc.subtract(offsets.slice(1), offsets.slice(0, count - 1))
    breaks = pc.indices_nonzero(pc.not_equal(steps, 1)).to_pylist()
    starts = [0, *(index + 1 for index in breaks)]
    ends = [*breaks, count - 1]
    return [
        (offsets[start].as_py(), offsets[end].as_py() + 1)
        for start, end in zip(starts, ends, strict=True)
    ]


def entries(positions: pa.Array, offsets: pa.Array) -> Runs:
    """Return where the entries of a 0.7 log begin and end whose last row is among these rows."""
    ends = pc.indices_nonzero(pc.greater(offsets, positions))
    starts, untils = positions.take(ends).to_pylist(), offsets.take(ends).to_pylist()
    return list(zip(starts, untils, strict=True))


def covered(positions: pa.Array, offsets: pa.Array) -> Runs:
    """Return the bytes of a 0.7 log that rows account for, as `[start, until)` runs in order.

    A row accounts for its entry if it is the last one in it. The other rows of a compressed entry
    have the entry's position as their offset, and account for nothing.

    Args:
        positions: where the entry of each row begins.
        offsets: the position after each row.
    """
    found: Runs = []
    for start, until in entries(positions, offsets):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], until)
        else:
            found.append((start, until))
    return found


def joined(ranges: Iterable[tuple[int, int]]) -> Runs:
    """Return runs in order; those that touch or overlap are joined."""
    whole: Runs = []
    for start, until in sorted(ranges):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], until))
        else:
            whole.append((start, until))
    return whole


def minus(left: Runs, right: Runs) -> Runs:
    """Return the parts of joined runs that other joined runs do not cover."""
    rest: Runs = []
    index = 0
    for start, until in left:
        while index < len(right) and right[index][1] <= start:
            index += 1
        at = index
        while at < len(right) and right[at][0] < until:
            if right[at][0] > start:
                rest.append((start, right[at][0]))
            start = max(start, right[at][1])
            at += 1
        if start < until:
            rest.append((start, until))
    return rest


def repeated(ranges: Iterable[tuple[int, int]]) -> Runs:
    """Return the offsets that are in more than one of these ranges."""
    twice: Runs = []
    reached: int | None = None
    for start, until in sorted(ranges):
        if reached is not None and start < reached:
            twice.append((start, min(reached, until)))
        reached = until if reached is None else max(reached, until)
    return joined(twice)
