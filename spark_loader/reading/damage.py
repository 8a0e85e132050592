"""Finds the sound entries in message-set bytes with damage in them.

    entry ─▶ header, checksum and offsets are right ▶ sound: decoded
      └────▶ anything else ─────────────────────────▶ damaged: verbatim, with the reason

Invariant: sound and damaged stretches follow each other without a hole. No checksum covers the
offset in front of an entry, so an entry is sound only where its offsets fit: after those of the
entry before, before those of the entry after, and below the high watermark.
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import Columns, EntryInfo, iter_entries

# The first bytes of an entry of every magic: offset, size of the rest.
_FRAME = struct.Struct(">qi")
_SMALLEST_REST = 14
MOST_RAW_BYTES = 1024 * 1024
"""Most bytes kept of an entry whose end is unknown."""

Decode = Callable[[memoryview, int, int], Columns]


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """An entry of the log that cannot be decoded, verbatim; offsets `[start, until)` are lost."""

    start: int
    until: int
    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Sound:
    """Records of one entry, and the offset up to which they account for the log."""

    columns: Columns
    until: int
    entry: EntryInfo
    raw: memoryview


@dataclass(slots=True)
class _Claim:
    """Bytes between two places where entries seem to begin."""

    raw: memoryview
    entry: EntryInfo | None
    reason: str

    @property
    def readable(self) -> EntryInfo | None:
        return None if self.reason else self.entry


def by_entry(
    records: bytes | memoryview, position: int, until: int, high_watermark: int, decode: Decode
) -> Iterator[Sound | DamagedEntry]:
    """Walk entries one by one, from `position` up to `until` or the last whole entry.

    Args:
        records: the answer to a fetch at `position`; a partial entry at the end is left out.
        position: the first offset wanted.
        until: the first offset not wanted.
        high_watermark: above every record's offset.
        decode: decodes one entry within bounds; raises CorruptMessage or MessageSizeTooLarge.
    """
    claims = list(_claims(memoryview(records), high_watermark))
    begun = False
    for index, claim in enumerate(claims):
        if position >= until:
            return
        entry = claim.readable
        if entry is not None and not begun and entry.last_offset < position:
            # An answer may begin before the requested offset.
            continue
        after = next(_following(claims, index), None)
        reason = claim.reason or _misplaced(claim.entry, after, position)
        found = None
        if not reason:
            try:
                found = decode(claim.raw, position, until)
            except (CorruptMessage, MessageSizeTooLarge) as error:
                reason = str(error)
        begun = True
        if found is not None and entry is not None:
            position = min(entry.last_offset + 1, until)
            yield Sound(found, position, entry, claim.raw)
            continue
        end = min(_end(claim, _following(claims, index), position, high_watermark), until)
        yield DamagedEntry(position, end, bytes(claim.raw[:MOST_RAW_BYTES]), reason)
        position = end


def _claims(view: memoryview, high_watermark: int) -> Iterator[_Claim]:
    place = 0
    while len(view) - place >= _FRAME.size:
        _, rest = _FRAME.unpack_from(view, place)
        if rest < _SMALLEST_REST:
            # Where the next entry begins is unknown.
            yield _Claim(view[place:], None, f"its size says {rest} bytes")
            return
        size = _FRAME.size + rest
        if place + size > len(view):
            return
        raw = view[place : place + size]
        entry, reason = None, ""
        try:
            entry = next(iter_entries(raw))
            if entry.last_offset >= high_watermark:
                reason = (
                    f"its offset {entry.last_offset} is not below the high watermark "
                    f"{high_watermark}"
                )
        except CorruptMessage as error:
            reason = str(error)
        yield _Claim(raw, entry, reason)
        place += size


def _following(claims: list[_Claim], index: int) -> Iterator[EntryInfo]:
    """Yield the readable entries after a claim."""
    for number in range(index + 1, len(claims)):
        entry = claims[number].readable
        if entry is not None:
            yield entry


def _misplaced(entry: EntryInfo | None, after: EntryInfo | None, position: int) -> str:
    """Return why the offsets of an entry cannot be right, or nothing."""
    if entry is None:
        return ""
    if entry.last_offset < position:
        return f"its offset {entry.last_offset} does not follow {position - 1}"
    if after is not None and position <= after.last_offset <= entry.last_offset:
        return f"its offset {entry.last_offset} is not before {after.last_offset}"
    return ""


def _end(claim: _Claim, following: Iterator[EntryInfo], position: int, high_watermark: int) -> int:
    """Return the first offset after a damaged entry, as far as its neighbours tell."""
    entry = claim.entry
    if entry is not None and position <= entry.last_offset < high_watermark:
        end = entry.last_offset + 1
        after = next(following, None)
        if after is None or end <= after.last_offset:
            return end
        following = itertools.chain([after], following)
    for each in following:
        # The offset of a compressed entry before magic 2 is that of its last record.
        first_known = each.magic == 2 or each.codec == 0
        if first_known and each.base_offset > position:
            return each.base_offset
    return position + 1
