"""The simple consumer of Kafka 0.7: one broker, one request at a time, positions in bytes.

    fetch(topic, partition, offset) -> messages, and the position to go on at

A broker of 0.7 answers at once, even without data; the caller waits before it asks again. Next
position = requested position + the bytes of the whole entries received.

Invariant: a connection is closed after any error, so that no answer is taken for that of a later
    request; the next request opens a new one.
"""

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    MessageSizeTooLarge,
    NetworkError,
    ProtocolError,
    protocol_error,
)
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.protocol.legacy07 import (
    Fetch07,
    MultiFetch07,
    Offsets07,
    Request07,
    decode_answer,
    decode_multifetch,
    decode_offsets,
    encode_request,
)
from zkbroker.records.legacy07 import Message07, messages, whole_bytes
from zkbroker.runtime import Runtime, get_runtime

_FETCH_BYTES = 1024 * 1024
_LIMIT_BYTES = 64 * 1024 * 1024
_MAX_ANSWER_BYTES = 512 * 1024 * 1024
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Messages07:
    """The messages of one fetch.

    Args:
        messages: wrappers unpacked, each with its next offset.
        next_offset: where to go on: the position asked for when nothing whole came.
        error: why nothing came, None without an error.
    """

    messages: list[Message07]
    next_offset: int
    error: ProtocolError | None = None


@dataclass(frozen=True, slots=True)
class Fetched07:
    """The undecoded entries of one fetch.

    Args:
        data: whole entries, as in the log.
        next_offset: where to go on: the position asked for when nothing whole came.
        error: why nothing came, None without an error.
    """

    data: memoryview
    next_offset: int
    error: ProtocolError | None = None


class SimpleConsumer07:
    """A consumer of one broker; connects when first used, and again after a lost connection.

    Args:
        host: of the broker.
        port: of the broker.
        socket_timeout_ms: how long to wait for a connection and for bytes of an answer.
        fetch_bytes: most bytes of a fetch (`fetch.size`).
        max_fetch_bytes: limit to which that is doubled for a message that does not fit.
        receive_buffer_bytes: of the socket; -1 leaves the system's.
        runtime: `threads`, `gevent` or a `Runtime`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        socket_timeout_ms: int = 30_000,
        fetch_bytes: int = _FETCH_BYTES,
        max_fetch_bytes: int = _LIMIT_BYTES,
        receive_buffer_bytes: int = -1,
        runtime: str | Runtime = "threads",
    ) -> None:
        if not 0 < fetch_bytes <= max_fetch_bytes:
            raise ClientError(
                f"fetch_bytes={fetch_bytes} must be from 1 to max_fetch_bytes={max_fetch_bytes}"
            )
        self.host = host
        self.port = port
        self._runtime = get_runtime(runtime)
        self._timeout_s = socket_timeout_ms / 1000
        self._fetch_bytes = fetch_bytes
        self._limit_bytes = max_fetch_bytes
        self._buffer_bytes = receive_buffer_bytes
        self._socket: socket.socket | None = None
        self._reader: FrameReader | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def fetch(self, topic: str, partition: int, offset: int) -> Messages07:
        """Fetch messages of one partition from a position on.

        Raises:
            OffsetOutOfRange: the position is not in the log; `offsets` returns valid ones.
            MessageSizeTooLarge: the message there is above the limit.
            CorruptMessage: the first message there is damaged.
            NetworkError: the broker does not answer; it also closes the connection on some errors.
        """
        found = self.multifetch([(topic, partition, offset)])[0]
        if found.error is not None:
            raise found.error
        return found

    def multifetch(self, wanted: Sequence[tuple[str, int, int]]) -> list[Messages07]:
        """Fetch from several partitions with one request.

        Args:
            wanted: topic, partition and position of each.

        Returns:
            for each, the messages or the error.

        Raises:
            NetworkError: the broker does not answer.
        """
        found = self.fetch_entries(wanted)
        return [_read(each, offset) for each, (_, _, offset) in zip(found, wanted, strict=True)]

    def fetch_entries(self, wanted: Sequence[tuple[str, int, int]]) -> list[Fetched07]:
        """Fetch like `multifetch`, without decoding."""
        if not wanted:
            return []
        asked = tuple(Fetch07(*each, self._fetch_bytes) for each in wanted)
        error, body = self._ask(MultiFetch07(asked))
        parts = decode_multifetch(body)
        if error or len(parts) != len(asked):
            self._drop()
            raise NetworkError(
                f"{self.host}:{self.port} answered {len(parts)} of {len(asked)} fetches, error "
                f"{error}: is it a broker of Kafka 0.7?"
            )
        return [
            self._whole(fetch, code, data) for fetch, (code, data) in zip(asked, parts, strict=True)
        ]

    def fetch_raw(self, topic: str, partition: int, offset: int, max_bytes: int) -> memoryview:
        """Fetch raw bytes of a log; the last entry may be cut.

        Raises:
            OffsetOutOfRange: the position is not in the log.
            ProtocolError: another error of the broker.
            NetworkError: the broker does not answer.
        """
        error, data = self._ask(Fetch07(topic, partition, offset, max_bytes))
        if error:
            raise protocol_error(error, f"{topic}-{partition} from {offset}")
        return data

    def offsets(
        self, topic: str, partition: int, time_ms: int = LATEST_TIME, count: int = 1
    ) -> list[int]:
        """Return positions at which reading may begin, newest first.

        Args:
            topic: the topic.
            partition: its number on this broker.
            time_ms: LATEST_TIME, EARLIEST_TIME, or milliseconds since 1970.
            count: how many at most.

        Raises:
            NetworkError: the broker does not answer, as for a partition that it does not have.
        """
        error, body = self._ask(Offsets07(topic, partition, time_ms, count))
        if error:
            raise protocol_error(error, f"offsets of {topic}-{partition}")
        return decode_offsets(body)

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        connection = self._socket
        if connection is not None:
            # Wakes the task that waits for an answer.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _whole(self, fetch: Fetch07, code: int, data: memoryview) -> Fetched07:
        size = fetch.max_bytes
        while True:
            if code:
                place = f"{fetch.topic}-{fetch.partition} from {fetch.offset}"
                return Fetched07(_NOTHING, fetch.offset, protocol_error(code, place))
            try:
                end = whole_bytes(data)
            except CorruptMessage as damage:
                end = damage.position or 0
                if not end:
                    return Fetched07(_NOTHING, fetch.offset, damage)
            if end or not data:
                return Fetched07(data[:end], fetch.offset + end)
            if len(data) < size:
                # The file ends inside a message: a larger fetch would not help.
                return Fetched07(_NOTHING, fetch.offset)
            size *= 2
            if size > self._limit_bytes:
                too_large = MessageSizeTooLarge(
                    f"the message at {fetch.offset} of {fetch.topic}-{fetch.partition} does not "
                    f"fit into max_fetch_bytes={self._limit_bytes}"
                )
                return Fetched07(_NOTHING, fetch.offset, too_large)
            code, data = self._ask(Fetch07(fetch.topic, fetch.partition, fetch.offset, size))

    def _ask(self, request: Request07) -> tuple[int, memoryview]:
        if self._closed:
            raise ClientError(f"the consumer of {self.host}:{self.port} is closed")
        frame = encode_request(request)
        try:
            connection, reader = self._connected()
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            answer = reader.next_frame()
            if answer is None:
                raise NetworkError(f"{self.host}:{self.port} closed the connection")
            return decode_answer(answer)
        except (OSError, FrameError) as error:
            self._drop()
            raise NetworkError(f"{self.host}:{self.port}: {error}") from error
        except BaseException:
            self._drop()
            raise

    def _connected(self) -> tuple[socket.socket, FrameReader]:
        if self._socket is None or self._reader is None:
            connection = self._runtime.connect(self.host, self.port, self._timeout_s)
            connection.settimeout(self._timeout_s)
            if self._buffer_bytes >= 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
            self._socket = connection
            self._reader = FrameReader(connection.recv_into, _MAX_ANSWER_BYTES)
        return self._socket, self._reader

    def _drop(self) -> None:
        connection, self._socket, self._reader = self._socket, None, None
        if connection is not None:
            connection.close()


def _read(fetched: Fetched07, offset: int) -> Messages07:
    """Decode whole entries; a damaged one after good ones is left for the next fetch."""
    if fetched.error is not None:
        return Messages07([], offset, fetched.error)
    data = fetched.data
    found: list[Message07] = []
    try:
        found.extend(messages(data, offset))
    except CorruptMessage as damage:
        position = damage.position or 0
        found = list(messages(data[:position], offset))
        return Messages07(found, offset + position, None if position else damage)
    return Messages07(found, fetched.next_offset)
