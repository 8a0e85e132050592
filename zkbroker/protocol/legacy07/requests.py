"""Encodes and decodes the requests of Kafka 0.7; for their layout see the package.

Invariant: `decode_request(encode_request(x)) == x`.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from zkbroker.errors import ErrorCode, ProtocolError

_SHORT: Final = struct.Struct(">h")
_PARTITION_SIZE: Final = struct.Struct(">ii")
_FETCH: Final = struct.Struct(">iqi")


class Api07(IntEnum):
    """Ids of the requests."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4


@dataclass(frozen=True, slots=True)
class Produce07:
    """A message set for a partition; partition -1 leaves the choice to the broker."""

    topic: str
    partition: int
    messages: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Fetch07:
    topic: str
    partition: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Offsets07:
    """Asks for offsets to read from: time -1 the newest, -2 the oldest, else milliseconds."""

    topic: str
    partition: int
    time_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class MultiFetch07:
    fetches: tuple[Fetch07, ...]


@dataclass(frozen=True, slots=True)
class MultiProduce07:
    sets: tuple[Produce07, ...]


Request07 = Produce07 | Fetch07 | MultiFetch07 | MultiProduce07 | Offsets07


def decode_request(frame: memoryview) -> Request07:
    """Read a request.

    Raises:
        ProtocolError: it is not a request of 0.7, or its body is incomplete.
    """
    reader = _RequestReader(frame)
    api = reader.short()
    if api == Api07.PRODUCE:
        return reader.produce()
    if api == Api07.FETCH:
        return reader.fetch()
    if api == Api07.MULTIFETCH:
        return MultiFetch07(tuple(reader.fetch() for _ in range(reader.count())))
    if api == Api07.MULTIPRODUCE:
        return MultiProduce07(tuple(reader.produce() for _ in range(reader.count())))
    if api == Api07.OFFSETS:
        return Offsets07(reader.topic(), *reader.unpack(_FETCH))
    raise _invalid(f"request id {api} is unknown in 0.7")


def encode_request(request: Request07) -> bytes:
    """Return a request's bytes without their length.

    Raises:
        ValueError: a number or a topic does not fit.
    """
    try:
        return _encode(request)
    except struct.error as error:
        raise ValueError(f"{request!r:.100} cannot be sent: {error}") from error


def _encode(request: Request07) -> bytes:
    if isinstance(request, Produce07):
        return _SHORT.pack(Api07.PRODUCE) + _produce(request)
    if isinstance(request, Fetch07):
        return _SHORT.pack(Api07.FETCH) + _fetch(request)
    if isinstance(request, MultiFetch07):
        parts = [_SHORT.pack(Api07.MULTIFETCH), _SHORT.pack(len(request.fetches))]
        return b"".join(parts + [_fetch(each) for each in request.fetches])
    if isinstance(request, MultiProduce07):
        parts = [_SHORT.pack(Api07.MULTIPRODUCE), _SHORT.pack(len(request.sets))]
        return b"".join(parts + [_produce(each) for each in request.sets])
    body = _FETCH.pack(request.partition, request.time_ms, request.count)
    return _SHORT.pack(Api07.OFFSETS) + _topic(request.topic) + body


def _topic(topic: str) -> bytes:
    encoded = topic.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _fetch(fetch: Fetch07) -> bytes:
    return _topic(fetch.topic) + _FETCH.pack(fetch.partition, fetch.offset, fetch.max_bytes)


def _produce(produce: Produce07) -> bytes:
    head = _PARTITION_SIZE.pack(produce.partition, len(produce.messages))
    return b"".join((_topic(produce.topic), head, produce.messages))


class _RequestReader:
    """A position in a request."""

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        self._at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read numbers."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> memoryview:
        """Read bytes."""
        end = self._at + size
        if size < 0 or end > len(self._frame):
            raise _invalid(
                f"{size} bytes at position {self._at} of a request of {len(self._frame)}"
            )
        taken = self._frame[self._at : end]
        self._at = end
        return taken

    def short(self) -> int:
        return self.unpack(_SHORT)[0]

    def count(self) -> int:
        count = self.short()
        if count < 0:
            raise _invalid(f"a count of {count}")
        return count

    def topic(self) -> str:
        # Bytes that are not UTF-8 become a character that is not allowed in topic names.
        return str(self.take(self.short()), "utf-8", "replace")

    def fetch(self) -> Fetch07:
        return Fetch07(self.topic(), *self.unpack(_FETCH))

    def produce(self) -> Produce07:
        topic = self.topic()
        partition, size = self.unpack(_PARTITION_SIZE)
        return Produce07(topic, partition, self.take(size))


def _invalid(what: str) -> ProtocolError:
    return ProtocolError(f"no request of Kafka 0.7: {what}", code=ErrorCode.INVALID_REQUEST)
