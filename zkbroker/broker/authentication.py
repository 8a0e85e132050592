"""The gate in front of the dispatcher, on listeners where clients log in.

    frame --> logged in? --yes--> the dispatcher
                 |
                 no --> ApiVersions: the dispatcher; SaslHandshake, tokens: `ServerExchange`;
                        anything else: error 34 if a handshake is under way, then close

Invariant: before a login only requests for the table of versions reach a handler, and no frame is
longer than `MAX_LOGIN_BYTES`. After a failure the connection waits, gets its answer and is closed;
no more of its requests are read.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.refusals import refusal
from zkbroker.errors import ErrorCode
from zkbroker.network.server.session import CloseConnection, Session
from zkbroker.network.transport import Part
from zkbroker.protocol import (
    ApiKey,
    MalformedFrame,
    RequestHeader,
    UnsupportedRequest,
    decode_header,
    decode_request,
    encode_response,
    supported,
)
from zkbroker.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from zkbroker.protocol.messages.metadata import MetadataTopic
from zkbroker.runtime import finish_anyway
from zkbroker.security.sasl.broker_mechanisms import Mechanisms
from zkbroker.security.sasl.exchange import Phase, ServerExchange
from zkbroker.security.sasl.mechanism import MAX_TOKEN_BYTES, LoginRefused

logger = logging.getLogger(__name__)

MAX_LOGIN_BYTES = MAX_TOKEN_BYTES
_MAX_ITEMS = 10_000

LOGGED_IN = object()
"""`Session.login` after the login; before it the exchange under way, or None."""


class LoginGate:
    """Passes requests on after a login.

    Args:
        listeners: name of a listener → the mechanisms that are enabled there.
        handle: the dispatcher: answers a request.
        max_frame_bytes: the longest request, after the login.
        wait: waits before a failure is answered, for the configured time at most.
        offload: calls a function that may wait, without stopping other tasks.
        metrics: count logins.
    """

    def __init__(
        self,
        listeners: Mapping[str, Mechanisms],
        handle: Callable[[Session, memoryview], Sequence[Part] | None],
        *,
        max_frame_bytes: int,
        wait: Callable[[Session], object],
        offload: Callable[[Callable[[], bytes]], bytes],
        metrics: BrokerMetrics,
    ) -> None:
        self._listeners = listeners
        self._handle = handle
        self._max_frame_bytes = max_frame_bytes
        self._wait = wait
        self._offload = offload
        self._metrics = metrics

    def handle(self, session: Session, frame: memoryview) -> Sequence[Part] | None:
        """Answer one frame.

        Raises:
            CloseConnection: it cannot be answered.
        """
        if session.login is LOGGED_IN:
            return self._handle(session, frame)
        exchange = session.login
        if exchange is None:
            exchange = session.login = ServerExchange(self._listeners[session.listener])
        assert isinstance(exchange, ServerExchange)
        try:
            if exchange.phase is Phase.BARE:
                token = self._evaluate(session, exchange, bytes(frame))
                answer: Sequence[Part] = [len(token).to_bytes(4, "big") + token]
            else:
                answer = self._answer(session, exchange, frame)
        except LoginRefused as error:
            self._failed(session, exchange)
            raise CloseConnection(f"{_login(exchange)}: {error}") from None
        except (UnsupportedRequest, MalformedFrame) as error:
            self._failed(session, exchange)
            raise CloseConnection(f"{_login(exchange)}: not a request of it: {error}") from None
        if exchange.phase is Phase.DONE:
            self._done(session, exchange)
        # The dispatcher's state of the connection belongs to its own answers only.
        session.context = None
        return answer

    def _answer(
        self, session: Session, exchange: ServerExchange, frame: memoryview
    ) -> Sequence[Part]:
        header, _ = decode_header(frame)
        session.client_id = header.client_id
        if header.api_key == ApiKey.API_VERSIONS and exchange.phase is not Phase.TOKENS:
            exchange.versions(answered=supported(header.api_key, header.api_version))
            answered = self._handle(session, frame)
            assert answered is not None
            return answered
        if exchange.phase is not Phase.TOKENS and header.api_key != ApiKey.SASL_HANDSHAKE:
            # The body of the request is not decoded.
            raise exchange.refuse(_name(header.api_key))
        header, request = decode_request(frame, max_items=_MAX_ITEMS)
        if header.api_key == ApiKey.SASL_HANDSHAKE and exchange.phase is not Phase.TOKENS:
            return self._handshake(session, exchange, header, request.mechanism)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(session, exchange, header, request.auth_bytes)
        error = exchange.refuse(_name(header.api_key))
        response = _refusal(request, header.api_version)
        if response is None:
            raise error
        return self._last(session, exchange, header, response, str(error))

    def _handshake(
        self,
        session: Session,
        exchange: ServerExchange,
        header: RequestHeader,
        mechanism: str,
    ) -> Sequence[Part]:
        known = exchange.handshake(mechanism, bare=header.api_version == 0)
        response = SaslHandshakeResponse(ErrorCode.NONE, exchange.enabled)
        if known:
            return encode_response(header.correlation_id, response, header.api_version)
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        why = f"the mechanism {mechanism[:40]!r} is not enabled"
        return self._last(session, exchange, header, response, why)

    def _authenticate(
        self, session: Session, exchange: ServerExchange, header: RequestHeader, token: bytes
    ) -> Sequence[Part]:
        try:
            answer = self._evaluate(session, exchange, token)
        except LoginRefused as error:
            failed = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
            return self._last(session, exchange, header, failed, str(error))
        response = SaslAuthenticateResponse(auth_bytes=answer)
        return encode_response(header.correlation_id, response, header.api_version)

    def _evaluate(self, session: Session, exchange: ServerExchange, token: bytes) -> bytes:
        if not exchange.waits:
            return exchange.token(token)
        with session.parked(finish_anyway):
            return self._offload(lambda: exchange.token(token))

    def _last(
        self,
        session: Session,
        exchange: ServerExchange,
        header: RequestHeader,
        response: Any,
        why: str,
    ) -> Sequence[Part]:
        self._failed(session, exchange)
        session.last_answer = f"{_login(exchange)}: {why}"
        return encode_response(header.correlation_id, response, header.api_version)

    def _failed(self, session: Session, exchange: ServerExchange) -> None:
        self._metrics.login(session.listener, exchange.mechanism, good=False)
        self._wait(session)

    def _done(self, session: Session, exchange: ServerExchange) -> None:
        assert exchange.principal is not None
        session.principal = exchange.principal
        session.login = LOGGED_IN
        session.let_in(self._max_frame_bytes)
        self._metrics.login(session.listener, exchange.mechanism, good=True)
        logger.debug(
            "logged in peer=%s principal=%s mechanism=%s",
            session.address,
            exchange.principal,
            exchange.mechanism,
        )


def _login(exchange: ServerExchange) -> str:
    return f"login failed mechanism={exchange.mechanism or 'none'}"


def _name(api_key: int) -> str:
    return ApiKey(api_key).name if api_key in set(ApiKey) else f"a request of API {api_key}"


def _refusal(request: Any, version: int) -> Any | None:
    code = ErrorCode.ILLEGAL_SASL_STATE
    if isinstance(request, MetadataRequest):
        return MetadataResponse(topics=[MetadataTopic(code, name) for name in request.topics or ()])
    return refusal(request, version, code)
