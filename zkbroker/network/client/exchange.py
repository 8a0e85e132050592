"""A connection on which one request at a time is sent, and its sender reads the answer itself.

Invariant: one request is under way at most, and no answer of an earlier one can be taken for its
own: whatever fails closes the connection. Without a task that reads, an answer wakes the one that
waits for it and no other, which is what brokers need that copy from each other message by message.
Nobody notices at once that the peer closes: `closed` looks, after some time without a request.
"""

import itertools
import socket
import time
from collections.abc import Sequence
from typing import Any

from zkbroker.errors import NetworkError, RequestTimedOut
from zkbroker.network.client.channel import MAX_RESPONSE_BYTES, open_socket
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.network.transport import ClientTransport, ClientTransports, Part, SocketTransport
from zkbroker.protocol import ApiKey, RequestHeader, decode_response, encode_request
from zkbroker.runtime import Runtime

_REST_S = 1.0


class Exchange:
    """One connection to a broker; open when constructed.

    Args:
        runtime: threads or gevent.
        host: name or address, IPv4 or IPv6.
        port: TCP port.
        client_id: sent with every request; brokers name it in their logs.
        timeout_ms: for the TCP connection, and for each request: from waiting for its turn to
            its whole answer.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.
        max_response_bytes: a longer answer closes the connection.
        transport: makes what carries the bytes of the connected socket; plain by default.

    Raises:
        NetworkError: it cannot be reached.
    """

    def __init__(
        self,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        receive_buffer_bytes: int = -1,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        transport: ClientTransports = SocketTransport,
    ) -> None:
        self._address = f"{host}:{port}"
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._correlation_ids = itertools.count(1)
        self._turn = runtime.lock()
        self._lock = runtime.lock()
        self._under_way = False
        self._closed = False
        self._deadline = 0.0
        self._ended_at = time.monotonic()
        connection = open_socket(
            runtime,
            host,
            port,
            self._timeout_s,
            send_buffer_bytes=-1,
            receive_buffer_bytes=receive_buffer_bytes,
        )
        self._transport: ClientTransport = transport(connection)
        self._frames = FrameReader(self._receive_into, max_response_bytes)

    @property
    def closed(self) -> bool:
        """Whether it is closed, by either side."""
        with self._lock:
            resting = not self._closed and not self._under_way
        if resting and time.monotonic() - self._ended_at > _REST_S and self._transport.readable():
            # The broker has closed a connection that was idle; nothing else comes unasked.
            self.close()
        return self._closed

    def request(self, request: Any, version: int) -> Any:
        """Send a request that is answered, and wait for its answer; others wait for their turn.

        Args:
            request: a request message of `zkbroker.protocol.messages`.
            version: in which to send it.

        Raises:
            RequestTimedOut: there was no whole answer in time.
            NetworkError: the connection was lost or closed.
            ProtocolError: the answer cannot be decoded.
            ValueError: a value does not fit its wire type.
        """
        key, correlation_id = request.api_key, next(self._correlation_ids) & 0x7FFFFFFF
        header = RequestHeader(key, version, correlation_id, self._client_id)
        parts = encode_request(header, request)
        deadline = time.monotonic() + self._timeout_s
        with self._turn:
            self._begin()
            answered = False
            try:
                frame = self._exchange(parts, deadline)
                if int.from_bytes(frame[:4], "big", signed=True) != correlation_id:
                    raise NetworkError(f"{self._address} answered what was not asked")
                answered = True
            except TimeoutError:
                raise RequestTimedOut(
                    f"no answer from {self._address} within {self._timeout_s:g} s to "
                    f"{ApiKey(key).name} v{version}"
                ) from None
            except (OSError, FrameError) as error:
                raise NetworkError(f"connection to {self._address} lost: {error}") from error
            finally:
                self._end(answered)
        return decode_response(key, version, frame)[1]

    def _begin(self) -> None:
        with self._lock:
            if self._closed:
                raise NetworkError(f"connection to {self._address} was closed")
            self._under_way = True

    def _exchange(self, parts: Sequence[Part], deadline: float) -> memoryview:
        self._deadline = deadline
        self._limit()
        self._transport.send(parts)
        frame = self._frames.next_frame()
        if frame is None:
            raise NetworkError(f"connection to {self._address} lost: closed by the broker")
        return frame

    def _receive_into(self, view: memoryview) -> int:
        self._limit()
        return self._transport.receive_into(view)

    def _limit(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._transport.limit(left_s)

    def _end(self, answered: bool) -> None:
        with self._lock:
            self._ended_at = time.monotonic()
            self._under_way = False
            self._closed |= not answered
            closed = self._closed
        if closed:
            self._transport.close()

    def close(self) -> None:
        """Close the connection; a request under way fails. Closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way = self._under_way
        if under_way:
            # Wakes the task that waits, which then closes: a descriptor that another one waits for
            # must not be given away.
            self._transport.shut_down(socket.SHUT_RDWR)
        else:
            self._transport.close()
