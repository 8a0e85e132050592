"""The login of a client over a connected transport.

    ApiVersions 0 -> SaslHandshake 1 -> SaslAuthenticate ...     brokers since 1.0
    ApiVersions 0 -> SaslHandshake 0 -> tokens as bare frames    brokers of 0.10 and 0.11

Invariant: after the login no byte of it is left to read, and the transport carries requests. An
error names the broker, the mechanism and the user, and the offered mechanisms where they matter; it
never shows a password or a token.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.sasl_options import OAUTHBEARER
from zkbroker.errors import AuthenticationFailed, ErrorCode, NetworkError, ZkbrokerError
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.network.transport import SocketTransport
from zkbroker.protocol import ApiKey, RequestHeader, decode_response, encode_request
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from zkbroker.security.sasl.client_mechanisms import client_mechanism
from zkbroker.security.sasl.mechanism import ClientMechanism, LoginRefused

_MAX_ANSWER_BYTES = 1024 * 1024
_CLIENT_ID = "zkbroker"
_MAX_STEPS = 8


def authenticate(
    transport: SocketTransport,
    login: SaslLogin,
    peer: str,
    offload: Callable[[Callable[[], Any]], Any],
) -> None:
    """Log in; afterwards the transport carries requests.

    Args:
        transport: connected, and encrypted if the security protocol asks for it; its waits are
            limited.
        login: mechanism and credentials.
        peer: `host:port` of the broker.
        offload: calls a slow function without blocking other tasks.

    Raises:
        AuthenticationFailed: the broker refuses the login, or does not prove its identity.
        NetworkError: the connection was lost, or no answer came in time.
        ConfigError: the token settings cannot be used.
    """
    mechanism: ClientMechanism = offload(lambda: client_mechanism(login))
    conversation = _Conversation(transport, login, peer)
    try:
        bare = conversation.choose()
        token: bytes | None = mechanism.first()
        for _ in range(_MAX_STEPS):
            if token is None:
                break
            said = token
            answer = conversation.send_bare(said) if bare else conversation.send_token(said)
            token = offload(partial(mechanism.evaluate, answer))
        if not mechanism.complete:
            raise conversation.refused("the exchange stopped before it was complete")
    except LoginRefused as error:
        raise conversation.refused(str(error)) from None
    except TimeoutError as error:
        raise NetworkError(f"no answer from {peer} to the login in time") from error
    except (OSError, FrameError) as error:
        raise NetworkError(f"connection to {peer} lost during the login: {error}") from error


class _Conversation:
    def __init__(self, transport: SocketTransport, login: SaslLogin, peer: str) -> None:
        self._transport = transport
        self._login = login
        self._peer = peer
        self._reader = FrameReader(transport.receive_into, _MAX_ANSWER_BYTES)
        self._correlation_ids = itertools.count(1)
        self._version = 0

    def refused(self, why: str) -> AuthenticationFailed:
        """Return the error of a login that the broker, or this client, does not accept."""
        user = f" of the user {self._login.user!r}" if self._login.user else ""
        return AuthenticationFailed(
            f"login{user} by {self._login.mechanism} at {self._peer} failed: {why}"
        )

    def _cure(self) -> str:
        if self._login.mechanism == OAUTHBEARER:
            return "check the token's issuer, audience and expiry"
        return "check user and password (sasl.username and sasl.password, or sasl.jaas.config)"

    def choose(self) -> bool:
        """Choose the mechanism; return whether tokens are sent as bare frames."""
        versions = self._versions()
        tokens = versions.get(ApiKey.SASL_AUTHENTICATE)
        handshakes = versions.get(ApiKey.SASL_HANDSHAKE, (0, 0))
        bare = tokens is None or handshakes[1] < 1
        if tokens is not None:
            self._version = min(1, tokens[1])
        name = self._login.mechanism
        answer = self._ask(SaslHandshakeRequest(name), 0 if bare else 1)
        if answer is None:
            raise self.refused("the broker closed the connection when the mechanism was chosen")
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "no mechanism"
            raise self.refused(f"the broker offers {offered}: set sasl.mechanism to one of these")
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self.refused(
                "that listener takes no logins: set security.protocol to PLAINTEXT or SSL, or "
                "connect to the port of a SASL listener"
            )
        if answer.error_code:
            raise self.refused(f"error {answer.error_code} when the mechanism was chosen")
        return bare

    def send_token(self, token: bytes) -> bytes:
        """Send a token in a request; return the broker's."""
        answer = self._ask(SaslAuthenticateRequest(token), self._version)
        if answer is None:
            raise self.refused("the broker closed the connection")
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            said = answer.error_message or "the broker refuses it"
            raise self.refused(f"{said}: {self._cure()}")
        if answer.error_code:
            raise self.refused(answer.error_message or f"error {answer.error_code}")
        data: bytes = answer.auth_bytes
        return data

    def send_bare(self, token: bytes) -> bytes:
        """Send a token as a bare frame; return the broker's."""
        self._transport.send([len(token).to_bytes(4, "big"), token])
        frame = self._next()
        if frame is None:
            what = "the token" if self._login.mechanism == OAUTHBEARER else "user or password"
            raise self.refused(f"the broker closed the connection, as it does if {what} is wrong")
        return bytes(frame)

    def _versions(self) -> dict[int, tuple[int, int]]:
        answer = self._ask(ApiVersionsRequest(), 0)
        if answer is None:
            raise self.refused(
                "the broker closed the connection at the first request: is that the port of a "
                "SASL_PLAINTEXT or SASL_SSL listener, as security.protocol says?"
            )
        return {each.key: (each.min_version, each.max_version) for each in answer.versions}

    def _ask(self, request: Any, version: int) -> Any | None:
        """Send a request and return its response; None when the broker closed the connection."""
        number = next(self._correlation_ids)
        header = RequestHeader(request.api_key, version, number, _CLIENT_ID)
        self._transport.send(encode_request(header, request))
        frame = self._next()
        if frame is None:
            return None
        try:
            answered, response = decode_response(request.api_key, version, frame)
        except ZkbrokerError as error:
            raise self.refused(f"the broker's answer cannot be decoded: {error}") from error
        if answered != number:
            raise self.refused("the broker's answer belongs to another request")
        return response

    def _next(self) -> memoryview | None:
        try:
            return self._reader.next_frame()
        except ConnectionResetError:
            return None
