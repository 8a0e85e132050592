"""From a request's bytes to its answer: decode, handle, encode, and count on the way.

Most produces and fetches take a shorter way, see `zkbroker.broker.plain_ways`.

Invariant: a handler either returns its response or raises. An exception becomes the error code of
the response, or of each of its partitions, depending on the version (`zkbroker.broker.refusals`).
If the response has no field for an error, or the bytes are no request that is served, the
connection is closed with a log line that names client and API.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkbroker.broker.clients import ClientCounts, ClientVersions
from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.metrics import GATHERED, BrokerMetrics, RequestMetrics
from zkbroker.broker.pacing import RUN_S, paced
from zkbroker.broker.quotas.client_quotas import ClientLimits
from zkbroker.broker.quotas.throttling import Throttling, throttled_produce
from zkbroker.broker.refusals import refusal
from zkbroker.errors import ZkbrokerError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.server import CloseConnection, Session
from zkbroker.network.transport import Part
from zkbroker.protocol import (
    ApiKey,
    MalformedFrame,
    RequestHeader,
    TooManyItems,
    UnsupportedRequest,
    decode_header,
    decode_request,
    encode_response,
)
from zkbroker.protocol.plain import MAX_ITEMS, read_plain

logger = logging.getLogger(__name__)

DEFAULT_MAX_ITEMS = 200_000

Handler = Callable[[Any, RequestContext], Any]
"""Called with a request and its context; returns the response, or None for no response."""


Rows = list[tuple[str, list[Any]]]
"""The rows of an answer by topic; the second value of a row is its error code."""


@dataclass(frozen=True, slots=True)
class PlainWay:
    """The short way of one API; see `zkbroker.broker.plain_ways`.

    Args:
        handle: answers a plain request; None for no answer. It raises only `CloseConnection`.
        encode: encodes the answer from version, correlation id and rows.
        allowed: returns whether a whole request is authorized; None if everything is.
    """

    handle: Callable[[Any, RequestContext], Rows | None]
    encode: Callable[[int, int, Any], Sequence[Part]]
    allowed: Callable[[Any, RequestContext], bool] | None


class ConnectionState:
    """The dispatcher's state of a connection, in `Session.context`."""

    __slots__ = ("client_id", "counts", "handled_at", "kinds", "limits", "metrics", "started_at")

    def __init__(self, client_id: str | None, counts: ClientCounts) -> None:
        self.client_id = client_id
        self.counts = counts
        self.kinds = counts.requests
        self.metrics: RequestMetrics | None = None
        self.limits: ClientLimits | None = None
        self.started_at = self.handled_at = 0.0


class Dispatcher:
    """Finds the handler of each request, which may have `max_items` items of arrays."""

    def __init__(
        self,
        handlers: Mapping[ApiKey, Handler],
        metrics: BrokerMetrics,
        clients: ClientVersions,
        *,
        max_items: int = DEFAULT_MAX_ITEMS,
    ) -> None:
        self._handlers = {int(key): handler for key, handler in handlers.items()}
        self._metrics = {int(key): metrics.request(key) for key in handlers}
        self._clients = clients
        self._max_items = max_items
        self._plain_items = min(max_items, MAX_ITEMS)
        self.plain_ways: Mapping[int, PlainWay] = {}
        """Short ways by API; none by default."""
        self.throttling: Throttling | None = None
        """Throttles clients above their quotas; None while no quota is set."""

    def handle(self, session: Session, frame: memoryview) -> Sequence[Part] | None:
        """Answer one request.

        Raises:
            CloseConnection: it cannot be answered.
        """
        started = time.monotonic()
        plain = read_plain(frame, self._plain_items)
        way = None if plain is None else self.plain_ways.get(plain[0])
        if plain is None or way is None:
            return self._handle_any(session, frame, started)
        _, version, correlation_id, client_id = plain[:4]
        state = session.context
        if not isinstance(state, ConnectionState) or state.client_id != client_id:
            state = self._new_state(session, client_id)
        meter = None
        if self.throttling is not None:
            name = session.principal.name
            state.limits = self.throttling.limits(state.limits, name, client_id)
            meter = self.throttling.plain_meter(
                state.limits, session.mute, state.counts, plain, len(frame)
            )
            if meter is not None:
                if meter.throttle_ms:
                    return self._handle_any(session, frame, started)
                plain = meter.bounded(plain)
        context = RequestContext(
            *(session, plain[0], version, correlation_id, client_id, session.principal),
            started + RUN_S,
        )
        if way.allowed is not None and not way.allowed(plain, context):
            return self._handle_any(session, frame, started)
        kind = plain[0] << 16 | version
        if kind in state.kinds:
            state.kinds[kind] += 1
        else:
            state.counts.count(plain[0], version)
        metrics = self._metrics[plain[0]]
        session.parked_s = 0.0
        answers = way.handle(plain, context)
        parts = None
        throttle_ms = 0
        if meter is not None and not meter.exempt:
            throttle_ms = meter.used((time.monotonic() - started - session.parked_s) * 1000)
        if answers is not None:
            parts = way.encode(version, correlation_id, answers)
            if throttle_ms:
                parts = throttled_produce(version, parts, throttle_ms)
            for _, rows in answers:
                for row in rows:
                    if row[1]:
                        code = int(row[1])
                        metrics.errors[code] = metrics.errors.get(code, 0) + 1
            if meter is not None:
                meter.answered(parts)
        metrics.served += 1
        state.metrics = metrics
        state.started_at = started
        state.handled_at = time.monotonic()
        if parts is None:
            self.sent(session)
        return parts

    def _handle_any(
        self, session: Session, frame: memoryview, started: float
    ) -> Sequence[Part] | None:
        """Answer one request by the general way, whatever it is."""
        try:
            header, request = decode_request(frame, max_items=self._max_items, paced=paced)
        except UnsupportedRequest as error:
            header = error.header
            raise self._not_served(session, header) from None
        except TooManyItems as error:
            raise CloseConnection(
                f"request with more than request.max.items={self._max_items} items: "
                f"{error}{self._who(session, frame)}"
            ) from None
        except MalformedFrame as error:
            raise CloseConnection(
                f"malformed request: {error}{self._who(session, frame)}"
            ) from None
        key = header.api_key
        handler = self._handlers.get(key)
        if handler is None:
            raise self._not_served(session, header)
        state = session.context
        if not isinstance(state, ConnectionState) or state.client_id != header.client_id:
            state = self._new_state(session, header.client_id)
        kind = key << 16 | header.api_version
        if kind in state.kinds:
            state.kinds[kind] += 1
        else:
            state.counts.count(key, header.api_version)
        metrics = self._metrics[key]
        session.parked_s = 0.0
        context = RequestContext(
            session,
            key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            principal=session.principal,
            run_until=started + RUN_S,
        )
        meter = None
        if self.throttling is not None:
            limits = self.throttling.limits(state.limits, context.principal.name, header.client_id)
            state.limits = limits
            meter = self.throttling.meter(limits, session.mute, state.counts, request, len(frame))
        try:
            response = None if meter is None else meter.refuse(request, header.api_version)
            if response is None:
                response = handler(request, context)
        except ZkbrokerError as error:
            if isinstance(error, CloseConnection):
                raise
            response = self._failed(error, header, request)
        parts = None
        if meter is not None and (context.no_broker or not meter.exempt):
            meter.handled(response, (time.monotonic() - started - session.parked_s) * 1000)
        if response is not None:
            errors: list[int] = []
            try:
                parts = encode_response(
                    header.correlation_id, response, header.api_version, paced, errors
                )
            except BaseException:
                close_slices(response)
                raise
            for code in errors:
                metrics.errors[int(code)] = metrics.errors.get(int(code), 0) + 1
            if meter is not None:
                meter.answered(parts)
        metrics.served += 1
        state.metrics = metrics
        state.started_at = started
        state.handled_at = time.monotonic()
        if parts is None:
            self.sent(session)
        return parts

    def sent(self, session: Session) -> None:
        """Record that the answer to the connection's request has been sent."""
        state = session.context
        if not isinstance(state, ConnectionState) or (metrics := state.metrics) is None:
            return
        now = time.monotonic()
        received, started, handled = session.received_at, state.started_at, state.handled_at
        parked, times_s = session.parked_s, metrics.gathered_s
        times_s.append(
            (
                started - received if started > received else 0.0,
                handled - started - parked,
                parked,
                now - handled,
                now - received,
            )
        )
        if len(times_s) >= GATHERED:
            metrics.observe_gathered()

    def _not_served(self, session: Session, header: RequestHeader) -> CloseConnection:
        """Count a request that is not served; log the first one of a client and API as a warning.

        Some clients repeat such requests for ever: only the counts tell how often.
        """
        state = session.context
        if not isinstance(state, ConnectionState) or state.client_id != header.client_id:
            state = self._new_state(session, header.client_id)
        counts = state.counts
        known = counts.knows(header.api_key)
        counts.count(header.api_key, header.api_version)
        return CloseConnection(
            f"not served: api_key={header.api_key} api_version={header.api_version} "
            f"asked by client_id={header.client_id}"
            + ("" if known else "; further ones of this client are counted and not logged"),
            quiet=known,
        )

    def _who(self, session: Session, frame: memoryview) -> str:
        """Describe the sender of a request whose body cannot be decoded."""
        try:
            header, _ = decode_header(frame)
        except MalformedFrame:
            return ""
        session.client_id = header.client_id
        return f" (api_key={header.api_key} api_version={header.api_version})"

    def _new_state(self, session: Session, client_id: str | None) -> ConnectionState:
        counts = self._clients.client(client_id, session.ip)
        state = session.context = ConnectionState(client_id, counts)
        session.client_id = client_id
        return state

    def _failed(self, error: ZkbrokerError, header: RequestHeader, request: Any) -> Any:
        name = ApiKey(header.api_key).name
        response = refusal(request, header.api_version, error_code(error))
        if response is None:
            raise CloseConnection(f"{name} failed: {error}") from error
        logger.warning(
            "request failed api=%s version=%d client_id=%s error=%s",
            name,
            header.api_version,
            header.client_id,
            error,
        )
        return response


def close_slices(response: Any) -> None:
    """Close the file slices of a fetch response that will not be sent."""
    for topic in getattr(response, "topics", ()):
        for partition in getattr(topic, "partitions", ()):
            records = getattr(partition, "records", None)
            for part in records if isinstance(records, list) else (records,):
                if isinstance(part, FileSlice):
                    part.close()
