"""Shallow walk over entries: their heads, one after the other.

Invariant: every returned entry is whole; if the CRC is checked, its checksum is right.
"""

from collections.abc import Iterator

from zkbroker.errors import CorruptMessage
from zkbroker.records import kernels
from zkbroker.records.entries import Data, check_crc, read_head
from zkbroker.records.layout import ENTRY, ENTRY_HEADER_BYTES
from zkbroker.records.record import EntryInfo, PartialEntry


def verify_entry(data: Data, position: int = 0, *, max_bytes: int | None = None) -> EntryInfo:
    """Read and verify one entry for recovery: a sane head, a whole entry, the right checksum.

    Args:
        data: the bytes of a segment, or of a part that begins at an entry.
        position: of the entry in `data`.
        max_bytes: an entry that claims to be larger is corrupt, not partial.

    Raises:
        PartialEntry: the entry is incomplete.
        CorruptMessage: the entry is damaged.
    """
    if max_bytes is not None and len(data) - position >= ENTRY_HEADER_BYTES:
        size = ENTRY.unpack_from(data, position)[1] + ENTRY_HEADER_BYTES
        if size > max_bytes:
            raise CorruptMessage(
                f"an entry of {size} bytes at position {position}, over {max_bytes}"
            )
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
