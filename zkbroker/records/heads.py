"""Shallow walk over entries: their heads, one after the other.

Invariant: every returned entry is whole; if the CRC is checked, its checksum is right.
"""

from collections.abc import Iterator

from zkbroker.records import kernels
from zkbroker.records.entries import Data, check_crc, read_head
from zkbroker.records.record import EntryInfo, PartialEntry


def verify_entry(data: Data, position: int = 0) -> EntryInfo:
    """Read and verify one entry for recovery: a sane head, a whole entry, the right checksum.

    Args:
        data: the bytes of a segment, or of a part that begins at an entry.
        position: of the entry in `data`.

    Raises:
        PartialEntry: the entry is incomplete.
        CorruptMessage: the entry is damaged.
    """
    plain = kernels.entry_head(data, position, True)
    if plain is not None:
        return plain
    entry = read_head(data, position)
    check_crc(memoryview(data), entry)
    return entry


def iter_entries(data: Data, *, position: int = 0, verify_crc: bool = False) -> Iterator[EntryInfo]:
    """Walk the entries; stops before a partial one at the end.

    Raises:
        CorruptMessage: bytes that cannot be an entry, or (with `verify_crc`) a wrong checksum.
    """
    view = memoryview(data)
    end = len(view)
    while position < end:
        entry = kernels.entry_head(data, position, verify_crc)
        if entry is None:
            try:
                entry = read_head(data, position)
            except PartialEntry:
                return
            if verify_crc:
                check_crc(view, entry)
        yield entry
        position += entry.size
