"""Messages of Kafka 0.7 as record batches, and records as messages of 0.7.

    0.7 set    --> batches of magic 2: no key, the payload as value, a timestamp; a wrapper becomes
                   a batch of its codec, or several if one would be too large
    record     --> one message of 0.7, uncompressed: the value, empty for null; key, headers and
                   timestamp do not fit and are left out

Invariant: `render` is frozen: it must reproduce, byte for byte, what 0.7 clients have read.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from zkbroker.records import kernels
from zkbroker.records.batch import build_batch, head_plain_batch
from zkbroker.records.checksum import crc32
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec
from zkbroker.records.layout import BATCH_HEADER_BYTES
from zkbroker.records.legacy07 import Data, messages, read_entry
from zkbroker.records.record import Unsent

PLAIN_0: Final = 0
"""Uncompressed messages of magic 0."""
PLAIN_1: Final = 1
"""Uncompressed messages of magic 1 without attributes."""
AS_SENT: Final = 2
"""Bytes that cannot be rendered again: one wrapper, or one message with meaningless attributes."""

_HEADS: Final = {PLAIN_0: struct.Struct(">ibI"), PLAIN_1: struct.Struct(">ibbI")}


class Stretch07(NamedTuple):
    """Consecutive entries of a 0.7 log of one kind, with the number of messages in them."""

    kind: int
    data: bytes | memoryview
    messages: int


class Converted07(NamedTuple):
    """A set of 0.7 for a newer log: `batches` to append, and the set itself in stretches."""

    batches: bytearray
    stretches: list[Stretch07]
    messages: int


def render(payloads: Sequence[Data | None], kind: int) -> bytes:
    """Return messages of 0.7 with these payloads.

    Args:
        payloads: a null becomes empty.
        kind: `PLAIN_0` or `PLAIN_1`.
    """
    pack = _HEADS[kind].pack
    parts: list[Data] = []
    if kind == PLAIN_1:
        for payload in payloads:
            value = payload or b""
            parts += (pack(6 + len(value), 1, 0, crc32(value)), value)
    else:
        for payload in payloads:
            value = payload or b""
            parts += (pack(5 + len(value), 0, crc32(value)), value)
    return b"".join(parts)


def convert_set(
    data: Data,
    now_ms: int,
    *,
    max_batch_bytes: int,
    max_stretch_bytes: int,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Converted07:
    """Convert a checked set for a newer log.

    Args:
        data: whole entries that passed `check_set`.
        now_ms: timestamp of the records, ms since 1970.
        max_batch_bytes: limit of a batch; one large message may exceed it.
        max_stretch_bytes: a stretch ends with the message that reaches this size.
        max_decompressed_bytes: the largest size that one wrapper may expand to.

    Returns:
        batches and stretches; an entry without messages is in neither.

    Raises:
        CorruptMessage: a wrapper cannot be unpacked.
    """
    out = _Batches(now_ms, max_batch_bytes)
    stretches: list[Stretch07] = []
    view = memoryview(data)
    position, total = 0, len(view)
    while position < total:
        begin = position
        for kind in (PLAIN_1, PLAIN_0):
            position, count, _ = kernels.plain_messages(
                view, begin, kind, total, max_stretch_bytes, False
            )
            if count:
                out.plain(view, begin, position, count)
                stretches.append(Stretch07(kind, view[begin:position], count))
                break
        else:
            entry = read_entry(view, begin)
            if entry is None:
                break
            position = entry.end
            sent = view[begin:position]
            count = 1
            if entry.codec:
                inside = [
                    each.payload for each in messages(sent, 0, max_bytes=max_decompressed_bytes)
                ]
                out.wrapper(inside, Codec(entry.codec))
                count = len(inside)
            else:
                out.plain(view, begin, position, count)
            if count:
                stretches.append(Stretch07(AS_SENT, sent, count))
    batches = out.finish()
    return Converted07(batches, stretches, sum(each.messages for each in stretches))


def dense(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, after the last) index of each part of a list whose offsets have no gap."""
    places = range(len(offsets))
    begin = 0
    while begin < len(offsets):
        # Offsets grow, so this difference grows with each gap, and stays the same between gaps.
        base = offsets[begin] - begin
        end = bisect_right(places, base, begin, key=lambda place: offsets[place] - place)
        yield begin, end
        begin = end


class _Batches:
    """Collects the records of a set into batches."""

    def __init__(self, now_ms: int, max_bytes: int) -> None:
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._out = bytearray()
        self._begin = 0
        """Where the unfinished batch begins."""
        self._count = 0

    def plain(self, data: memoryview, begin: int, end: int, count: int) -> None:
        """Add `count` uncompressed messages."""
        records = kernels.plain_records(data, begin, end, self._count)
        size = len(self._out) - self._begin + len(records)
        if size + (0 if self._count else BATCH_HEADER_BYTES) > self._max_bytes:
            if count > 1:
                # Messages that fit go into this batch.
                middle, before, _ = kernels.plain_messages(
                    data, begin, -1, end, (end - begin) // 2, False
                )
                if middle == end:
                    # One message is larger than a batch.
                    middle, before, _ = kernels.plain_messages(data, begin, -1, end, 1, False)
                self.plain(data, begin, middle, before)
                self.plain(data, middle, end, count - before)
                return
            if self._count:
                self._flush()
                records = kernels.plain_records(data, begin, end, 0)
        if not self._count:
            self._out += bytes(BATCH_HEADER_BYTES)
        self._out += records
        self._count += count

    def wrapper(self, payloads: list[bytes], codec: Codec) -> None:
        """Add the payloads of a wrapper."""
        self._flush()
        if payloads:
            self._compressed([(None, each, self._now_ms, ()) for each in payloads], codec)

    def finish(self) -> bytearray:
        """Return the batches."""
        self._flush()
        return self._out

    def _compressed(self, records: list[Unsent], codec: Codec) -> None:
        batch = build_batch(records, codec=codec)
        if len(batch) > self._max_bytes and len(records) > 1:
            # The wrapper was smaller: another compressor, and smaller heads around the messages.
            middle = len(records) // 2
            self._compressed(records[:middle], codec)
            self._compressed(records[middle:], codec)
            return
        self._out += batch
        self._begin = len(self._out)

    def _flush(self) -> None:
        if self._count:
            with memoryview(self._out) as view:
                head_plain_batch(view[self._begin :], self._count, self._now_ms)
            self._begin, self._count = len(self._out), 0
