"""A pipelined connection to one broker, for every client of this library.

Invariant: requests leave whole and in the order of `send`; each `Pending` is done exactly once,
with its answer or with the error that ended the connection. Any number of threads (or greenlets,
under that runtime) may use one connection at once.

The broker's versions are found with ApiVersions v0, which every broker since 0.10.0 answers. A
broker that closes the connection instead is older: 0.9 answers ListGroups v0, and 0.8.2 only an
empty ListOffsets v0. A broker that answers none of them is shutting down, and no version is assumed
of it.
"""

import itertools
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import ErrorCode, NetworkError, RequestTimedOut, UnsupportedVersion
from zkbroker.network.client.channel import MAX_RESPONSE_BYTES, Channel
from zkbroker.network.client.opening import open_transport
from zkbroker.network.client.versions import GUESSES
from zkbroker.protocol import (
    SUPPORTED_VERSIONS,
    ApiKey,
    RequestHeader,
    decode_response,
    encode_request,
)
from zkbroker.protocol.messages import ApiVersionsRequest, ListGroupsRequest, ListOffsetsRequest
from zkbroker.runtime import QueueEmpty, QueueFull, Runtime

logger = logging.getLogger(__name__)

_ASKS_FOR_LOGIN = (
    " (where its listener asks for a login: set security.protocol=SASL_SSL or SASL_PLAINTEXT)"
)


class Pending:
    """An answer that will come."""

    __slots__ = (
        "_callbacks",
        "_connection",
        "_error",
        "_event",
        "_frame",
        "_response",
        "correlation_id",
        "expects_answer",
        "request",
        "version",
    )

    def __init__(
        self, connection: "BrokerConnection", request: Any, version: int, correlation_id: int
    ) -> None:
        self._connection = connection
        self._event = connection.runtime.event()
        self._callbacks: list[Callable[[Pending], None]] | None = []
        self._frame: memoryview | None = None
        self._response: Any = None
        self._error: NetworkError | None = None
        self.request = request
        self.version = version
        self.correlation_id = correlation_id
        self.expects_answer = not (request.api_key == ApiKey.PRODUCE and request.acks == 0)

    @property
    def done(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the answer; return False, with no other effect, if none came in time."""
        return self._event.wait(timeout_s)

    def again(self) -> "Pending":
        """Send the same request once more."""
        return self._connection.send(self.request, self.version)

    def _answered(self, wait_s: float, *, muted: bool) -> bool:
        deadline = time.monotonic() + wait_s
        while not self._event.wait(max(0.0, deadline - time.monotonic())):
            # An earlier answer may have named a throttle time during the wait.
            later = self._connection.throttled_until + wait_s if muted else deadline
            if later <= deadline:
                return False
            deadline = later
        return True

    def result(self, timeout_s: float | None = None, *, muted: bool | None = None) -> Any:
        """Wait for the answer and return the response message; None for a produce with acks=0.

        Args:
            timeout_s: seconds to wait; the connection's request time-out by default. A fetch needs
                its own waiting time on top.
            muted: whether the wait grows by the time in which a quota keeps the broker from reading
                requests; by default only if no `timeout_s` is given.

        Raises:
            RequestTimedOut: no answer came. The connection is then closed: answers come in order,
                so every later one would be late too.
            NetworkError: the connection was lost or closed.
            ProtocolError: the answer cannot be decoded.
        """
        connection = self._connection
        wait_s = connection.request_timeout_s if timeout_s is None else timeout_s
        if not self._answered(wait_s, muted=timeout_s is None if muted is None else muted):
            timed_out = RequestTimedOut(
                f"no answer from {connection.address} within {wait_s:g} s to "
                f"{ApiKey(self.request.api_key).name} v{self.version}"
            )
            connection.close(NetworkError(str(timed_out)))
            raise timed_out
        if self._error is not None:
            raise self._error
        if self._frame is not None:
            _, self._response = decode_response(self.request.api_key, self.version, self._frame)
            self._frame = None
            throttle_ms = getattr(self._response, "throttle_time_ms", 0)
            if throttle_ms > 0:
                connection.throttled_until = time.monotonic() + throttle_ms / 1000
        return self._response

    def add_done_callback(self, callback: Callable[["Pending"], None]) -> None:
        """Call `callback(self)` once when done: in the connection's reader task, or here and now.

        The callback may call `result()`, and must not wait for another answer of this connection.
        """
        with self._connection.lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self, frame: memoryview | None, error: NetworkError | None) -> None:
        """Store the answer's frame or the error; for the channel only, which calls it once."""
        self._frame = frame
        self._error = error
        with self._connection.lock:
            callbacks, self._callbacks = self._callbacks or [], None
        self._event.set()
        self._connection.give_back_permit()
        for callback in callbacks:
            callback(self)


class BrokerConnection:
    """A connection to one broker; open when constructed.

    Args:
        runtime: threads or gevent.
        host: name or address, IPv4 or IPv6.
        port: TCP port.
        client_id: sent with every request; brokers name it in their logs.
        connect_timeout_ms: for the TCP connection, and again for each answer about the
            broker's versions, unless `request_timeout_ms` is less.
        request_timeout_ms: how long `result()` waits by default.
        send_buffer_bytes: SO_SNDBUF; -1 leaves the system's own.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.
        max_response_bytes: a longer answer closes the connection.
        max_in_flight: how many requests may be unanswered; `send` waits while there are as many.
        security: the TLS and login settings.

    Raises:
        AuthenticationFailed: the TLS handshake or the login failed.
        NetworkError: the broker cannot be reached.
        ConfigError: the files of `security` cannot be used.
    """

    def __init__(
        self,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        client_id: str | None = "zkbroker",
        connect_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_in_flight: int = 1000,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self._security = security
        self.runtime = runtime
        self.host = host
        self.port = port
        self.client_id = client_id
        self.request_timeout_s = request_timeout_ms / 1000
        self.lock = runtime.lock()
        self.throttled_until = 0.0
        """Until when the broker reads no request, by its answers; on the monotonic clock."""
        self.guess: str | None = None
        """Generation assumed of a broker without ApiVersions; None when it has them."""
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_response_bytes = max_response_bytes
        self._permits = runtime.queue(max_in_flight)
        self._correlation_ids = itertools.count(1)
        self._channel = self._open_channel()
        try:
            self.versions = self._find_versions()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        return self._channel.error is not None

    @property
    def in_flight(self) -> int:
        """How many requests are unanswered."""
        return self._channel.in_flight

    def best_version(self, api_key: int, at_most: int | None = None) -> int:
        """Return the highest version of an API that both sides speak.

        Args:
            api_key: which API.
            at_most: the highest version the caller wants.

        Raises:
            UnsupportedVersion: there is none.
        """
        ours = SUPPORTED_VERSIONS.get(ApiKey(api_key))
        theirs = self.versions.get(int(api_key))
        if ours is not None and theirs is not None:
            highest = min(ours[1], theirs[1], ours[1] if at_most is None else at_most)
            if highest >= max(ours[0], theirs[0]):
                return highest
        limit = "" if at_most is None else f", at most {at_most} wanted"
        raise UnsupportedVersion(
            f"{self.address} speaks {ApiKey(api_key).name} versions {theirs}, "
            f"this client {ours}{limit}"
        )

    def send(self, request: Any, version: int | None = None) -> Pending:
        """Send a request without waiting for its answer.

        Args:
            request: a request message of `zkbroker.protocol.messages`.
            version: the highest that both sides speak by default.

        Raises:
            UnsupportedVersion: there is no common version.
            NetworkError: the connection is closed.
            RequestTimedOut: `max_in_flight` requests stayed unanswered for the request time-out.
        """
        if version is None:
            version = self.best_version(request.api_key)
        pending = Pending(self, request, version, next(self._correlation_ids) & 0x7FFFFFFF)
        header = RequestHeader(request.api_key, version, pending.correlation_id, self.client_id)
        parts = encode_request(header, request)
        try:
            self._permits.put(None, timeout_s=self.request_timeout_s)
        except QueueFull:
            raise RequestTimedOut(
                f"{self.in_flight} requests to {self.address} are unanswered"
            ) from None
        try:
            # A client sends no file slices.
            self._channel.send(parts, pending)
        except NetworkError:
            self.give_back_permit()
            raise
        return pending

    def request(
        self, request: Any, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """Send a request and wait for its response: `send` and `Pending.result` in one."""
        return self.send(request, version).result(timeout_s)

    def close(self, error: NetworkError | None = None) -> None:
        """Close the connection; open answers fail with `error`. Closing again does nothing."""
        self._channel.close(error or NetworkError(f"connection to {self.address} was closed"))

    def give_back_permit(self) -> None:
        """Let one more request go out; for `Pending` only."""
        try:
            self._permits.get(timeout_s=0)
        except QueueEmpty:
            pass  # unreachable: one permit is taken for each entry

    def __enter__(self) -> "BrokerConnection":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open_channel(self) -> Channel:
        transport = open_transport(
            self.runtime,
            self.host,
            self.port,
            self._connect_timeout_s,
            security=self._security,
            send_buffer_bytes=self._send_buffer_bytes,
            receive_buffer_bytes=self._receive_buffer_bytes,
        )
        hint = "" if self._security.has_login else _ASKS_FOR_LOGIN
        return Channel(self.runtime, transport, self.address, self._max_response_bytes, hint)

    def _find_versions(self) -> Mapping[int, tuple[int, int]]:
        limit_s = min(self._connect_timeout_s, self.request_timeout_s)
        try:
            response = self.request(ApiVersionsRequest(), 0, limit_s)
            if response.error_code == ErrorCode.NONE:
                return {
                    span.key: (span.min_version, span.max_version) for span in response.versions
                }
            self.guess = "0.10.0"
            return GUESSES[self.guess]
        except NetworkError as error:
            logger.debug("no ApiVersions broker=%s error=%s", self.address, error)
        self._channel = self._open_channel()
        try:
            self.request(ListGroupsRequest(), 0, limit_s)
            self.guess = "0.9"
        except NetworkError:
            self._channel = self._open_channel()
        if self.guess is None:
            # Every old broker answers this; one that does not is shutting down.
            self.request(ListOffsetsRequest(), 0, limit_s)
            self.guess = "0.8.2"
        logger.info("assumed broker=%s generation=%s", self.address, self.guess)
        return GUESSES[self.guess]
