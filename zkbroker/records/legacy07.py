"""Messages of Kafka 0.6 and 0.7, which have no offset of their own.

    magic 0   length:i32  magic:i8=0                 crc:i32  payload      9 + n bytes
    magic 1   length:i32  magic:i8=1  attributes:i8  crc:i32  payload     10 + n bytes

The length excludes itself; the CRC-32 covers only the payload; attributes bits 0-1 name the codec
(0 none, 1 gzip, 2 snappy), the other bits have no meaning. The payload of a message with a codec is
a compressed set of such messages: a wrapper. Magic 0 and 1 of 0.8 are other layouts: the two are
distinguished by their source, never by content.

An offset is a position in bytes, and a message's *next offset* is where a reader continues after
it: its own end; inside a wrapper, the wrapper's start, or its end for the last message. So a commit
inside a wrapper repeats the wrapper and never skips messages.

Invariant: no length is believed before it is compared with the available bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import kernels
from zkbroker.records.checksum import crc32
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress

LENGTH: Final = struct.Struct(">i")
MIN_LENGTH: Final = 5
"""Smallest length of a message: magic 0 without a payload."""
CODEC_MASK: Final = 3
MAX_NESTING: Final = 8
"""How deep wrappers may be nested."""

_HEAD_V1 = struct.Struct(">ibbI")
_HEAD_V0 = struct.Struct(">ibI")

Data = bytes | bytearray | memoryview


class Entry07(NamedTuple):
    """One stored entry of a set; `position` and `size` include its length field."""

    position: int
    size: int
    magic: int
    attributes: int
    crc: int
    payload: memoryview

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def valid(self) -> bool:
        """Whether the CRC matches the payload."""
        return crc32(self.payload) == self.crc


class Message07(NamedTuple):
    """A message as a consumer sees it."""

    next_offset: int
    magic: int
    crc: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits07:
    """Limits of one set, to bound the cost of checking it.

    Args:
        max_payload_bytes: `max.message.size`, of an entry's own payload; -1 for no limit.
        max_decompressed_bytes: of all wrappers of the set together.
        max_messages: in all wrappers of the set together.
    """

    max_payload_bytes: int = -1
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    max_messages: int = 1_000_000


class Checked07(NamedTuple):
    """A set that may be stored: its first `size` bytes, with `messages` in them."""

    size: int
    messages: int


def read_entry(data: Data, position: int) -> Entry07 | None:
    """Return the entry at a position, None if the data end before it does.

    Raises:
        CorruptMessage: the length is impossible, or the magic is neither 0 nor 1.
    """
    left = len(data) - position
    if left < 4:
        return None
    (length,) = LENGTH.unpack_from(data, position)
    if length < MIN_LENGTH:
        raise _corrupt(f"length {length}", position)
    if length > left - 4:
        return None
    magic = data[position + 4]
    if magic == 1:
        if length == MIN_LENGTH:
            raise _corrupt("a message of magic 1 with length 5", position)
        _, _, attributes, crc = _HEAD_V1.unpack_from(data, position)
        start = position + _HEAD_V1.size
    elif magic == 0:
        _, _, crc = _HEAD_V0.unpack_from(data, position)
        attributes = 0
        start = position + _HEAD_V0.size
    else:
        raise _corrupt(f"magic {magic}", position)
    end = position + 4 + length
    return Entry07(position, 4 + length, magic, attributes, crc, memoryview(data)[start:end])


def entries(data: Data) -> Iterator[Entry07]:
    """Yield the whole entries of a set in order; an incomplete last one is left out.

    Raises:
        CorruptMessage: see `read_entry`; its `position` tells where.
    """
    position = 0
    while (entry := read_entry(data, position)) is not None:
        yield entry
        position = entry.end


def check_plain_set(data: Data, limits: Limits07) -> Checked07 | None:
    """Check a set as `check_set` does, if it holds only whole, valid, plain messages."""
    total = len(data)
    most = limits.max_payload_bytes if limits.max_payload_bytes >= 0 else total
    reached, count, _ = kernels.plain_messages(data, 0, -1, most, total, False)
    return Checked07(total, count) if reached == total else None


def check_set(data: Data, limits: Limits07) -> Checked07:
    """Check a producer's set in the same way as a 0.7.2 broker before it stores the set.

    Raises:
        MessageSizeTooLarge: a payload is above `max_payload_bytes`: the set must be dropped.
        CorruptMessage: no part of the set may be stored.
    """
    view = memoryview(data)
    total = len(view)
    most = limits.max_payload_bytes if limits.max_payload_bytes >= 0 else total
    wrappers: list[Entry07] = []
    position = count = 0
    wrong: int | None = None
    while True:
        # Producers of 0.7 send many small plain messages.
        position, plain, _ = kernels.plain_messages(view, position, -1, most, total, False)
        count += plain
        entry = read_entry(view, position)
        if entry is None:
            break
        if len(entry.payload) > most:
            raise MessageSizeTooLarge(
                f"a payload of {len(entry.payload)} bytes at position {position}, "
                f"max.message.size is {most}"
            )
        if wrong is None and not entry.valid:
            wrong = position
        if entry.codec:
            wrappers.append(entry)
        count += 1
        position = entry.end
    if position == 0 and total >= LENGTH.size:
        raise _corrupt("the first message is not whole", 0)
    if wrong is not None:
        raise _corrupt("the CRC does not match", wrong)
    check = _Check(limits)
    for wrapper in wrappers:
        check.entry(wrapper, 0)
    return Checked07(position, count - len(wrappers) + check.messages)


class _Check:
    """Walks through the messages of wrappers, and enforces the limits."""

    def __init__(self, limits: Limits07) -> None:
        self.limits = limits
        self.room = limits.max_decompressed_bytes
        self.messages = 0

    def entry(self, entry: Entry07, depth: int) -> None:
        inner = open_entry(entry, max_bytes=self.room, depth=depth)
        if inner is None:
            self.messages += 1
            if self.messages > self.limits.max_messages:
                raise _corrupt(
                    f"more than {self.limits.max_messages} messages in wrappers "
                    "(request.max.compressed.records)",
                    entry.position,
                )
            return
        self.room -= len(inner)
        for each in _whole_entries(inner):
            self.entry(each, depth + 1)


def open_entry(entry: Entry07, *, max_bytes: int, depth: int) -> bytes | None:
    """Check an entry's CRC, and return the set inside if it is a wrapper, else None.

    Args:
        entry: the entry.
        max_bytes: the largest size that the set inside may expand to.
        depth: in how many wrappers the entry is nested.

    Raises:
        CorruptMessage: the CRC is wrong, or the entry cannot be unpacked within the limits.
    """
    if not entry.valid:
        raise _corrupt("the CRC does not match", entry.position)
    codec = entry.codec
    if codec == Codec.NONE:
        return None
    if codec > Codec.SNAPPY:
        raise _corrupt(f"codec {codec}", entry.position)
    if depth >= MAX_NESTING:
        raise _corrupt(f"wrappers in more than {MAX_NESTING} wrappers", entry.position)
    try:
        return decompress(codec, entry.payload, max_bytes=max_bytes)
    except MessageSizeTooLarge as error:
        raise _corrupt(f"{error} (request.max.decompressed.bytes)", entry.position) from error


def messages(
    data: Data, offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Message07]:
    """Yield the messages of fetched bytes, wrappers unpacked, with their next offsets.

    Args:
        data: the bytes of a fetch; an incomplete last entry is left out.
        offset: the offset of the fetch, in bytes.
        max_bytes: the largest size that one wrapper may expand to.

    Raises:
        CorruptMessage: an entry is damaged; earlier messages were yielded, and `position` is where
            the entry begins.
    """
    for entry in entries(data):
        inside = _opened(entry, max_bytes)
        if inside is None:
            yield Message07(offset + entry.end, entry.magic, entry.crc, bytes(entry.payload))
            continue
        for message in inside[:-1]:
            yield message._replace(next_offset=offset + entry.position)
        for message in inside[-1:]:
            yield message._replace(next_offset=offset + entry.end)


def _opened(entry: Entry07, max_bytes: int) -> list[Message07] | None:
    """Return the messages of a wrapper, None for a plain entry; errors have its position."""
    try:
        inner = open_entry(entry, max_bytes=max_bytes, depth=0)
        return None if inner is None else list(_inner(inner, max_bytes - len(inner), 1))
    except CorruptMessage as error:
        error.position = entry.position
        raise


def _inner(data: bytes, room: int, depth: int) -> Iterator[Message07]:
    for entry in _whole_entries(data):
        inner = open_entry(entry, max_bytes=room, depth=depth)
        if inner is None:
            yield Message07(0, entry.magic, entry.crc, bytes(entry.payload))
        else:
            yield from _inner(inner, room - len(inner), depth + 1)


def whole_bytes(data: Data) -> int:
    """Return the size of the whole entries in fetched bytes, after which a reader continues.

    Raises:
        CorruptMessage: see `read_entry`.
    """
    end = 0
    for entry in entries(data):
        end = entry.end
    return end


def build_message(payload: Data, *, magic: int = 1, attributes: int = 0) -> bytes:
    """Return one entry.

    Raises:
        ValueError: the magic is neither 0 nor 1.
    """
    if magic == 1:
        head = _HEAD_V1.pack(6 + len(payload), 1, attributes, crc32(payload))
    elif magic == 0:
        head = _HEAD_V0.pack(5 + len(payload), 0, crc32(payload))
    else:
        raise ValueError(f"magic {magic}: 0.7 has 0 and 1")
    return b"".join((head, payload))


def build_wrapper(codec: Codec, inner: Data) -> bytes:
    """Return a wrapper around a set."""
    return build_message(compress(codec, inner), attributes=int(codec))


def _whole_entries(data: Data) -> Iterator[Entry07]:
    """Yield entries as a broker accepts them: the first one must be whole."""
    end = 0
    for entry in entries(data):
        yield entry
        end = entry.end
    if end == 0 and len(data) >= 4:
        raise _corrupt("the first message is not whole", 0)


def _corrupt(what: str, position: int) -> CorruptMessage:
    error = CorruptMessage(f"{what} at position {position} of a 0.7 message set")
    error.position = position
    return error
