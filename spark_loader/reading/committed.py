"""Checks the entries of a fetch answer by their headers: their order, and which were aborted.

    data │ data │ aborted │ marker │ data │ (cut off)
    ─────────────────────── whole ────────┘ end

A marker takes an offset and holds no record. A reader of committed records leaves out the batches
of aborted transactions.

Invariant: the result of `look_over` accounts for every byte up to `end`. It is None where an entry
    cannot be read or its offsets cannot be right; `damage.by_entry` then finds the damage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_loader.reading.runs import Runs, joined, minus
from zkbroker.errors import CorruptMessage
from zkbroker.records import AbortedBatches, iter_entries, verify_entry

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of each aborted transaction, as an answer names them."""


@dataclass(frozen=True, slots=True)
class LookedOver:
    """The outcome for the entries of an answer.

    Attributes:
        kept: the entries without the aborted ones.
        aborted: `[start, until)` runs of the aborted offsets.
        end: the offset after the last whole entry.
    """

    kept: bytes | memoryview
    aborted: Runs
    end: int


def look_over(
    records: bytes | memoryview,
    position: int,
    high_watermark: int,
    aborted: Aborted,
    *,
    verify_crc: bool = True,
) -> LookedOver | None:
    """Walk the entries of an answer; None where they are not in order or cannot be read.

    Args:
        records: the answer to a fetch at `position`; a partial entry at the end is left out.
        position: the first offset wanted.
        high_watermark: above every record's offset.
        aborted: transactions to leave out; none for a reader of uncommitted records.
        verify_crc: whether the checksum of an aborted batch is checked; the decoder checks the
            others.
    """
    view = memoryview(records)
    batches = AbortedBatches(aborted)
    kept: list[memoryview] = []
    left_out: list[tuple[int, int]] = []
    end = position
    try:
        for entry in iter_entries(view):
            part = view[entry.position : entry.position + entry.size]
            is_aborted = bool(aborted) and batches.has(entry, part)
            if entry.last_offset < position and not kept and not left_out:
                # An answer may begin before the requested offset.
                continue
            if not end <= entry.last_offset < high_watermark:
                return None
            if is_aborted:
                if verify_crc:
                    verify_entry(part)
                left_out.append((max(position, entry.base_offset), entry.last_offset + 1))
            else:
                kept.append(part)
            end = entry.last_offset + 1
    except CorruptMessage:
        return None
    return LookedOver(b"".join(kept) if left_out else records, joined(left_out), end)


def parted(missing: Runs, aborted: Runs) -> list[tuple[int, int, bool]]:
    """Return the runs of offsets without a row, in order, and whether each was aborted."""
    absent = minus(missing, aborted)
    of_aborted = minus(missing, absent)
    found = [(start, until, False) for start, until in absent]
    return sorted([*found, *((start, until, True) for start, until in of_aborted)])
