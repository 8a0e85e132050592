"""A connection between brokers: one request at a time, whose sender reads the answer itself.

    send --> connected? --no--> connect --> request --> answer
                ^                               |
                +--- next send <--- closed <--- failure, or `close`

Invariants: at most one request is under way, and it cannot get the answer of an earlier one: a
failure closes the connection, and the next request opens another. There is no reader task, so that
an answer wakes only the sender; this keeps the copying of single messages between brokers fast. An
idle connection that the peer closed is therefore noticed late: a request that follows a pause
checks for it first. Versions are the sender's own (`zkbroker.protocol.inter_broker`), never
negotiated.
"""

import itertools
import socket
import time
from collections.abc import Sequence
from typing import Any

from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import NetworkError, RequestTimedOut
from zkbroker.network.client.channel import MAX_RESPONSE_BYTES
from zkbroker.network.client.opening import open_transport
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.network.transport import Part, SocketTransport
from zkbroker.protocol import ApiKey, RequestHeader, decode_response, encode_request
from zkbroker.runtime import Runtime

_REST_S = 1.0


class InterBrokerConnection:
    """A connection to one broker, opened when it is needed.

    Args:
        runtime: threads or gevent.
        host: name or address, IPv4 or IPv6.
        port: TCP port.
        client_id: sent with every request; brokers name it in their logs.
        timeout_ms: for the TCP connection, and for each request from the start of its turn to the
            end of its answer.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.
        max_response_bytes: a longer answer closes the connection.
        security: the TLS and login settings.
        server_name: the name that the broker's certificate must have, if that is not `host`.
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
        security: ClientSecurity = NO_SECURITY,
        server_name: str | None = None,
    ) -> None:
        self._server_name = server_name
        self._runtime = runtime
        self._host, self._port = host, port
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_response_bytes = max_response_bytes
        self._security = security
        self._correlation_ids = itertools.count(1)
        self._turn = runtime.lock()
        self._lock = runtime.lock()
        self._open: _OpenConnection | None = None
        self._closings = 0

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer; other tasks wait for their turn.

        Args:
            request: a request message of `zkbroker.protocol.messages` that is answered.
            version: of the request.

        Raises:
            RequestTimedOut: no complete answer came in time.
            NetworkError: the broker cannot be reached, or the connection was lost or closed.
            ProtocolError: the answer cannot be decoded.
            ValueError: a value does not fit its wire type.
        """
        key, correlation_id = request.api_key, next(self._correlation_ids) & 0x7FFFFFFF
        header = RequestHeader(key, version, correlation_id, self._client_id)
        parts = encode_request(header, request)
        address = f"{self._host}:{self._port}"
        with self._turn:
            connection = self._connected()
            answered = False
            try:
                frame = connection.exchange(parts, time.monotonic() + self._timeout_s)
                if int.from_bytes(frame[:4], "big", signed=True) != correlation_id:
                    raise NetworkError(f"the answer of {address} belongs to another request")
                response = decode_response(key, version, frame)[1]
                answered = True
            except TimeoutError:
                raise RequestTimedOut(
                    f"no answer from {address} within {self._timeout_s:g} s to "
                    f"{ApiKey(key).name} v{version}"
                ) from None
            except (OSError, FrameError) as error:
                reason = error.explained() if isinstance(error, FrameError) else error
                raise NetworkError(f"connection to {address} lost: {reason}") from error
            finally:
                self._end(connection, answered=answered)
        return response

    def close(self) -> None:
        """Close the connection: a request under way fails, and the next one opens another."""
        with self._lock:
            self._closings += 1
            connection, self._open = self._open, None
            under_way = connection is not None and connection.under_way
        if connection is None:
            return
        if under_way:
            # Wakes the sender, which then closes: a descriptor that a task waits for must not be
            # closed, since the system may reuse its number.
            connection.transport.shut_down(socket.SHUT_RDWR)
        else:
            connection.transport.close()

    def _connected(self) -> "_OpenConnection":
        """Return the open connection, marked as under way; open one if there is none."""
        with self._lock:
            connection, closings = self._open, self._closings
            if connection is not None:
                connection.under_way = True
        if connection is not None:
            if not connection.closed_by_peer():
                return connection
            self._end(connection, answered=False)
        opened = open_transport(
            self._runtime,
            self._host,
            self._port,
            self._timeout_s,
            security=self._security,
            server_name=self._server_name,
            receive_buffer_bytes=self._receive_buffer_bytes,
        )
        connection = _OpenConnection(opened, self._max_response_bytes)
        with self._lock:
            if closings == self._closings:
                self._open = connection
                return connection
        connection.transport.close()
        raise NetworkError(f"connection to {self._host}:{self._port} was closed")

    def _end(self, connection: "_OpenConnection", *, answered: bool) -> None:
        with self._lock:
            connection.under_way = False
            connection.ended_at = time.monotonic()
            if answered and self._open is connection:
                return
            if self._open is connection:
                self._open = None
        connection.transport.close()


class _OpenConnection:
    """One TCP connection; it is opened for a request, so one is under way from the start."""

    def __init__(self, transport: SocketTransport, max_response_bytes: int) -> None:
        self.transport = transport
        self.under_way = True
        self.ended_at = time.monotonic()
        self._deadline = 0.0
        self._frames = FrameReader(self._receive_into, max_response_bytes)

    def closed_by_peer(self) -> bool:
        """Whether bytes or an end arrived without a request; only checked after a pause."""
        return time.monotonic() - self.ended_at > _REST_S and self.transport.readable()

    def exchange(self, parts: Sequence[Part], deadline: float) -> memoryview:
        """Write a request and read one frame.

        Raises:
            TimeoutError: no answer before the deadline (monotonic seconds).
            OSError, FrameError: the connection cannot be used any more.
        """
        self._deadline = deadline
        self._limit()
        self.transport.send(parts)
        frame = self._frames.next_frame()
        if frame is None:
            raise FrameError("closed by the broker")
        return frame

    def _receive_into(self, view: memoryview) -> int:
        self._limit()
        return self.transport.receive_into(view)

    def _limit(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.transport.limit(left_s)
