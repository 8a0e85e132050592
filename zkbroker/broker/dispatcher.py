"""From a request's bytes to its answer: decode, handle, encode, and count on the way.

Invariant: a handler either returns its response or raises. An exception becomes the error code of
the response where that has one for all of it; where it has none, or where the bytes are no request
that is served, the connection is closed with a log line that says who asked for what.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from zkbroker.broker.clients import ClientCounts, ClientVersions
from zkbroker.broker.errors import error_code
from zkbroker.broker.metrics import BrokerMetrics, RequestMetrics
from zkbroker.errors import ZkbrokerError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server import CloseConnection, Session
from zkbroker.network.stream import Part
from zkbroker.protocol import (
    MESSAGES,
    ApiKey,
    MalformedFrame,
    RequestHeader,
    UnsupportedRequest,
    decode_header,
    decode_request,
    encode_response,
)

logger = logging.getLogger(__name__)

Handler = Callable[[Any, RequestHeader, Session], Any]
"""Takes the request, its header and the connection; returns the response, or None for none."""


class ConnectionState:
    """What the dispatcher keeps of a connection, in `Session.context`."""

    __slots__ = ("client_id", "counts", "metrics", "sending_since")

    def __init__(self, client_id: str | None, counts: ClientCounts) -> None:
        self.client_id = client_id
        self.counts = counts
        self.metrics: RequestMetrics | None = None
        self.sending_since = 0.0


class Dispatcher:
    """Finds the handler of each request.

    Args:
        handlers: by API.
        metrics: where requests are counted.
        clients: where clients and versions are counted.
    """

    def __init__(
        self, handlers: Mapping[ApiKey, Handler], metrics: BrokerMetrics, clients: ClientVersions
    ) -> None:
        self._handlers = {int(key): handler for key, handler in handlers.items()}
        self._metrics = {int(key): metrics.request(key) for key in handlers}
        self._clients = clients

    def handle(self, session: Session, frame: memoryview) -> Sequence[Part] | None:
        """Answer one request.

        Raises:
            CloseConnection: it cannot be answered.
        """
        started = time.monotonic()
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as error:
            header = error.header
            self._state(session, header).counts.count(header.api_key, header.api_version)
            raise CloseConnection(
                f"not served: api_key={header.api_key} api_version={header.api_version} "
                f"asked by client_id={header.client_id}"
            ) from None
        except MalformedFrame as error:
            raise CloseConnection(
                f"malformed request: {error}{self._who(session, frame)}"
            ) from None
        key = header.api_key
        state = self._state(session, header)
        state.counts.count(key, header.api_version)
        handler = self._handlers.get(key)
        if handler is None:
            raise CloseConnection(
                f"not served: api_key={key} asked by client_id={header.client_id}"
            )
        metrics = self._metrics[key]
        session.parked_s = 0.0
        try:
            response = handler(request, header, session)
        except ZkbrokerError as error:
            if isinstance(error, CloseConnection):
                raise
            response = self._failed(error, header)
        parts = None
        if response is not None:
            for code in error_codes(response):
                metrics.errors[code] = metrics.errors.get(code, 0) + 1
            try:
                parts = encode_response(header.correlation_id, response, header.api_version)
            except BaseException:
                close_slices(response)
                raise
        ended = time.monotonic()
        metrics.queue.observe(max(0.0, started - session.received_at))
        metrics.remote.observe(session.parked_s)
        metrics.local.observe(ended - started - session.parked_s)
        state.metrics = metrics
        state.sending_since = ended
        if parts is None:
            self.sent(session)
        return parts

    def sent(self, session: Session) -> None:
        """Note that the answer to the connection's request has gone out."""
        state = session.context
        if isinstance(state, ConnectionState) and state.metrics is not None:
            now = time.monotonic()
            state.metrics.send.observe(now - state.sending_since)
            state.metrics.total.observe(now - session.received_at)

    def _who(self, session: Session, frame: memoryview) -> str:
        """Describe the sender of a request whose body cannot be decoded."""
        try:
            header, _ = decode_header(frame)
        except MalformedFrame:
            return ""
        session.client_id = header.client_id
        return f" (api_key={header.api_key} api_version={header.api_version})"

    def _state(self, session: Session, header: RequestHeader) -> ConnectionState:
        state = session.context
        if not isinstance(state, ConnectionState) or state.client_id != header.client_id:
            counts = self._clients.client(header.client_id, session.ip)
            state = session.context = ConnectionState(header.client_id, counts)
            session.client_id = header.client_id
        return state

    def _failed(self, error: ZkbrokerError, header: RequestHeader) -> Any:
        name = ApiKey(header.api_key).name
        response = MESSAGES[ApiKey(header.api_key)][1]()
        if not hasattr(response, "error_code"):
            raise CloseConnection(f"{name} failed: {error}") from error
        response.error_code = error_code(error)
        logger.warning(
            "request failed api=%s version=%d client_id=%s error=%s",
            name,
            header.api_version,
            header.client_id,
            error,
        )
        return response


def error_codes(response: Any) -> Iterator[int]:
    """Yield the errors that a response tells: of all of it, of its items and their partitions."""
    if code := getattr(response, "error_code", 0):
        yield int(code)
    for name in ("topics", "groups", "resources"):
        for item in getattr(response, name, None) or ():
            if code := getattr(item, "error_code", 0):
                yield int(code)
            for partition in getattr(item, "partitions", None) or ():
                if code := getattr(partition, "error_code", 0):
                    yield int(code)


def close_slices(response: Any) -> None:
    """Close the file slices of a fetch response that will not be sent."""
    for topic in getattr(response, "topics", ()):
        for partition in getattr(topic, "partitions", ()):
            records = getattr(partition, "records", None)
            for part in records if isinstance(records, list) else (records,):
                if isinstance(part, FileSlice):
                    part.close()
