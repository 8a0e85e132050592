"""The last offset of each key, in a table of fixed size.

Invariant: the table takes 24 bytes a slot and never more memory than its limit. A key that does not
fit ends the mapping, and everything from it on is left for the next pass. Two keys count as equal
only if their MD5 digests are equal.
"""

import contextlib
import mmap
from typing import NamedTuple

from zkbroker.records import kernels
from zkbroker.records.entries import Data
from zkbroker.records.layout import SLOT_BYTES

_LEAST_SLOTS = 8


class Filtered(NamedTuple):
    """The entries that remain after a look-up of their keys in the map.

    Args:
        data: the remaining entries.
        position: of the first entry that was not processed, in bytes.
        seen: number of records before the look-up.
        kept: number of records that stay.
        newest_ms: largest timestamp of the records that stay, -1 for none.
        emptied: the entry that was not processed is a producer's batch of which no record stays.
    """

    data: bytes
    position: int
    seen: int
    kept: int
    newest_ms: int
    emptied: bool


class OffsetMap:
    """Keys and their last offsets.

    Args:
        memory_bytes: limit of the table's memory.
        load_factor: how full it may become.
        offsets: how many offsets are to be mapped; for few, the table is smaller.
    """

    def __init__(self, memory_bytes: int, load_factor: float, *, offsets: int) -> None:
        wanted = max(int(offsets / load_factor) + 1, _LEAST_SLOTS)
        slots = max(min(memory_bytes // SLOT_BYTES, wanted), 2)
        # Pages are allocated when they are first touched, in the cleaner's thread: the event loop,
        # which creates a table of many megabytes, does not wait for them.
        self._memory = mmap.mmap(-1, slots * SLOT_BYTES)
        self._table = memoryview(self._memory)
        with contextlib.suppress(AttributeError, OSError):
            # Huge pages are faster; not every kernel has them.
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        # One slot stays free, so that a search for a missing key ends.
        self._limit = max(min(int(slots * load_factor), slots - 1), 1)
        self.keys = 0
        """The number of keys in the table."""
        self.full = False
        """Whether a key did not fit."""
        self.end_offset = -1
        """The offset after the last mapped entry, -1 before the first."""

    def close(self) -> None:
        """Free the memory."""
        self._table.release()
        self._memory.close()

    @property
    def memory_bytes(self) -> int:
        """The size of the table."""
        return len(self._memory)

    def note(self, data: Data, position: int, *, start: int, shift: int = 0, alone: bool) -> int:
        """Map the keys of plain entries; returns the position of the first other entry.

        Args:
            data: entries.
            position: of the first, in bytes.
            start: records below this offset are skipped.
            shift: added to the offsets found.
            alone: process only one entry, which may be part of a transaction.

        Raises:
            CorruptMessage: an entry is damaged.
        """
        position, self.keys, end, self.full = kernels.map_keys(
            self._table, self.keys, self._limit, data, position, shift, start, alone
        )
        self.end_offset = max(self.end_offset, end)
        return position

    def see(self, last_offset: int) -> None:
        """Count an entry without keys as mapped."""
        self.end_offset = max(self.end_offset, last_offset + 1)

    def filter(
        self,
        data: Data,
        position: int,
        *,
        end: int,
        keep_deletes: bool,
        shift: int = 0,
        alone: bool,
    ) -> Filtered:
        """Remove from plain entries the records that have a later record of their key.

        Args:
            data: entries.
            position: of the first, in bytes.
            end: records from this offset on stay.
            keep_deletes: records without a value stay.
            shift: added to the offsets found.
            alone: process only one entry, which may be part of a transaction.

        Raises:
            CorruptMessage: an entry is damaged.
        """
        return Filtered(
            *kernels.filter_entries(self._table, data, position, shift, end, keep_deletes, alone)
        )
