"""Plain requests in pure Python: the twin of `zkbroker/protocol/speedups/plain.c`."""

import struct
from collections.abc import Sequence

from zkbroker.protocol.plain.requests import (
    FetchAnswerRow,
    FetchRow,
    PlainFetch,
    PlainProduce,
    ProduceAnswerRow,
    ProduceRow,
)

_PRODUCE, _FETCH = 0, 1
LAST_PRODUCE, LAST_FETCH = 7, 11
_NO_LIMIT_BYTES = 0x7FFFFFFF


class _NotPlain(Exception):
    pass


class _Bytes:
    """Reads the values of a request in order; an invalid length makes it not plain."""

    def __init__(self, frame: memoryview, items: int) -> None:
        self.frame = frame
        self.position = 0
        self.items = items

    def take(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(f">{layout}", self.frame, self.position)
        except struct.error:
            raise _NotPlain from None
        self.position += struct.calcsize(f">{layout}")
        return values

    def number(self, layout: str) -> int:
        return self.take(layout)[0]

    def text(self, *, nullable: bool = False) -> str | None:
        length = self.number("h")
        if length < 0:
            if nullable and length == -1:
                return None
            raise _NotPlain
        end = self.position + length
        if end > len(self.frame):
            raise _NotPlain
        try:
            found = str(self.frame[self.position : end], "utf-8")
        except UnicodeDecodeError:
            raise _NotPlain from None
        self.position = end
        return found

    def name(self) -> str:
        found = self.text()
        assert found is not None
        return found

    def count(self) -> int:
        count = self.number("i")
        self.items -= count
        if count < 1 or self.items < 0:
            raise _NotPlain
        return count


def read_plain(frame: memoryview, max_items: int) -> PlainProduce | PlainFetch | None:
    """Read a request if it is plain.

    Args:
        frame: the request without its size; record sets of the result are views of it.
        max_items: the most topics and partitions that it may have.

    Returns:
        The request, or None for one that is not plain.
    """
    data = _Bytes(frame, max_items)
    try:
        api_key, version, correlation_id = data.take("hhi")
        if version >= 0:
            if api_key == _PRODUCE and version <= LAST_PRODUCE:
                return _produce(data, version, correlation_id, data.text(nullable=True))
            if api_key == _FETCH and version <= LAST_FETCH:
                return _fetch(data, version, correlation_id, data.text(nullable=True))
    except _NotPlain:
        pass
    return None


def _produce(
    data: _Bytes, version: int, correlation_id: int, client_id: str | None
) -> PlainProduce:
    transactional_id = data.text(nullable=True) if version >= 3 else None
    acks, timeout_ms = data.take("hi")
    if acks not in (0, 1, -1):
        raise _NotPlain
    topics: list[tuple[str, list[ProduceRow]]] = []
    for _ in range(data.count()):
        topic = data.name()
        rows: list[ProduceRow] = []
        for _ in range(data.count()):
            partition, size = data.take("ii")
            start, end = data.position, data.position + size
            if size < (1 if version >= 3 else 0) or end > len(data.frame):
                raise _NotPlain
            data.position = end
            rows.append((partition, data.frame[start:end]))
        topics.append((topic, rows))
    return (
        *(_PRODUCE, version, correlation_id, client_id),
        *(transactional_id, acks, timeout_ms, topics),
    )


def _fetch(data: _Bytes, version: int, correlation_id: int, client_id: str | None) -> PlainFetch:
    replica_id, max_wait_ms, min_bytes = data.take("iii")
    max_bytes = data.number("i") if version >= 3 else _NO_LIMIT_BYTES
    isolation = data.number("b") if version >= 4 else 0
    session_id, session_epoch = data.take("ii") if version >= 7 else (0, -1)
    if version >= 7 and (replica_id >= 0 or session_epoch > 0):
        raise _NotPlain  # of a session
    topics: list[tuple[str, list[FetchRow]]] = []
    for _ in range(data.count()):
        topic = data.name()
        rows: list[FetchRow] = []
        for _ in range(data.count()):
            partition = data.number("i")
            epoch = data.number("i") if version >= 9 else -1
            offset = data.number("q")
            log_start = data.number("q") if version >= 5 else -1
            rows.append((partition, epoch, offset, log_start, data.number("i")))
        topics.append((topic, rows))
    if version >= 7 and data.number("i"):
        raise _NotPlain
    if version >= 11:
        data.name()
    return (
        *(_FETCH, version, correlation_id, client_id),
        *(replica_id, max_wait_ms, min_bytes, max_bytes, isolation),
        *(session_id, session_epoch, topics),
    )


def produce_answer(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Sequence[ProduceAnswerRow]]]
) -> list[bytes]:
    """Encode the answer to a produce, its size included, as a single part.

    Args:
        version: of the request.
        correlation_id: of the request.
        topics: each with the rows of its partitions.

    Raises:
        ValueError: a value does not fit.
    """
    try:
        parts = [struct.pack(">ii", correlation_id, len(topics))]
        fields = 3 + (version >= 2) + (version >= 5)
        layout = struct.Struct(">ihq" + "q" * (fields - 3))
        for topic, rows in topics:
            name = topic.encode()
            parts.append(struct.pack(">h", len(name)) + name + struct.pack(">i", len(rows)))
            parts += [layout.pack(*row[:fields]) for row in rows]
        if version >= 1:
            parts.append(struct.pack(">i", 0))
    except struct.error as error:
        raise ValueError(f"a value does not fit: {error}") from error
    body = b"".join(parts)
    return [struct.pack(">i", len(body)) + body]


def fetch_answer(
    version: int,
    correlation_id: int,
    session_id: int,
    topics: Sequence[tuple[str, Sequence[FetchAnswerRow]]],
) -> list[bytes]:
    """Encode the answer to a fetch without its records.

    Args:
        version: of the request.
        correlation_id: of the request.
        session_id: of the fetch session, 0 for none.
        topics: each with the rows of its partitions.

    Returns:
        The bytes before the records of each partition, in order, and those after the last one, if
        any; the first part begins with the size of the whole answer, records included.

    Raises:
        ValueError: a value does not fit.
    """
    heads: list[bytes] = []
    size = 0
    try:
        now = struct.pack(">i", correlation_id)
        if version >= 1:
            now += struct.pack(">i", 0)
        if version >= 7:
            now += struct.pack(">hi", 0, session_id)
        now += struct.pack(">i", len(topics))
        fields = 3 + (version >= 4) + (version >= 5)
        layout = struct.Struct(">ihq" + "q" * (fields - 3))
        for topic, rows in topics:
            name = topic.encode()
            now += struct.pack(">h", len(name)) + name + struct.pack(">i", len(rows))
            for row in rows:
                aborted, record_bytes = row[5:7]
                now += layout.pack(*row[:fields])
                if version >= 4:
                    now += struct.pack(">i", -1 if aborted is None else len(aborted))
                    for producer_id, first_offset in aborted or ():
                        now += struct.pack(">qq", producer_id, first_offset)
                if version >= 11:
                    now += struct.pack(">i", -1)
                now += struct.pack(">i", record_bytes)
                heads.append(now)
                size += len(now) + record_bytes
                now = b""
        if now:
            heads.append(now)
            size += len(now)
        heads[0] = struct.pack(">i", size) + heads[0]
    except struct.error as error:
        raise ValueError(f"a value does not fit: {error}") from error
    return heads
