r"""OAUTHBEARER (RFC 7628): login with a token that another party issued.

    client   n,[a=id],^Aauth=Bearer token^A[key=value^A ...]^A          ^A is byte 1
    server   (empty token), or {"status":"invalid_token"}
    client                     ^A, which ends a failed exchange

Invariant: only the validator accepts a token; after it has refused one, nothing but the client's
closing byte is accepted.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from zkbroker.errors import ZkbrokerError
from zkbroker.security.sasl import OAUTHBEARER
from zkbroker.security.sasl.mechanism import LoginRefused, invalid_credentials
from zkbroker.security.sasl.scram import unescaped_name

_CONTROL_A = b"\x01"
_FIRST = re.compile(r"n,(?:a=(?P<id>[^,]+))?,\x01(?P<pairs>(?:[^\x01]+\x01)+)\x01")
_PAIR = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/-]+=*)")


class TokenRefused(ZkbrokerError):
    """A validator does not accept a token.

    Args:
        reason: for the broker's log; the client gets only the status.
        status: `invalid_token` or `insufficient_scope`.
        scope: the scope that the token must grant, if it does not.
    """

    def __init__(self, reason: str, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class TokenValidator(Protocol):
    """Validates tokens; may be a class or a function of the user."""

    def __call__(self, token: str) -> str:
        """Return the user of a token. It may wait for the network.

        Raises:
            TokenRefused: the token is not accepted.
        """


class OAuthBearerServer:
    """The broker's side.

    Args:
        validator: validates tokens.
        refused: called with the reason of a refusal, for the log.
    """

    waits = True

    def __init__(
        self, validator: TokenValidator, refused: Callable[[Exception], object] = lambda _: None
    ) -> None:
        self._validator = validator
        self._refused = refused
        self._failure: str | None = None
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Process the token, or the byte that ends a failed exchange.

        Raises:
            LoginRefused: the exchange has failed; the message is the status as JSON if the token
                was refused.
        """
        if self._failure is not None:
            if token == _CONTROL_A:
                raise LoginRefused(self._failure)
            raise invalid_credentials(OAUTHBEARER)
        bearer, authorization_id = _parse_first(token)
        try:
            user = self._validator(bearer)
        except Exception as error:  # noqa: BLE001 - a user's own code, which may raise anything
            self._refused(error)
            self._failure = _failure(error)
            return self._failure.encode()
        if not isinstance(user, str) or not user:
            self._refused(TypeError("the validator returned no name"))
            self._failure = _failure(None)
            return self._failure.encode()
        if authorization_id not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        self.user = user
        return b""


class OAuthBearerClient:
    """The client's side.

    Args:
        token: as it was issued.
        extensions: names (letters) → values, sent with the token.
    """

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self.failure: str | None = None
        """The status with which the broker refused the token, None if it did not."""

    @property
    def complete(self) -> bool:
        """Whether the broker has not refused the token."""
        return self.failure is None

    def first(self) -> bytes:
        """Return the message with the token."""
        pairs = {"auth": f"Bearer {self._token}", **self._extensions}
        said = "".join(f"{key}={value}\x01" for key, value in pairs.items())
        return f"n,,\x01{said}\x01".encode()

    def evaluate(self, token: bytes) -> bytes | None:
        """Process the empty answer, or answer a refusal with the byte that ends the exchange.

        Raises:
            LoginRefused: another answer came after a refusal.
        """
        if self.failure is not None:
            raise LoginRefused(f"the broker refuses the token: {self.failure}")
        if not token:
            return None
        self.failure = token[:1000].decode("utf-8", "replace")
        return _CONTROL_A


def _parse_first(message: bytes) -> tuple[str, str]:
    """Return the token and the authorization id of a client's first message."""
    try:
        match = _FIRST.fullmatch(message.decode())
        if match is None:
            raise ValueError("not the form of a first message")
        authorization_id = unescaped_name(match["id"] or "")
        pairs: dict[str, str] = {}
        for text in match["pairs"].split("\x01")[:-1]:
            pair = _PAIR.fullmatch(text)
            if pair is None or pair["key"] in pairs:
                raise ValueError("not a pair, or given twice")
            pairs[pair["key"]] = pair["value"]
    except ValueError:
        raise invalid_credentials(OAUTHBEARER) from None
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise invalid_credentials(OAUTHBEARER)
    return bearer["token"], authorization_id


def _failure(error: Exception | None) -> str:
    status = {"status": "invalid_token"}
    if isinstance(error, TokenRefused):
        status["status"] = error.status
        if error.scope:
            status["scope"] = error.scope
    return json.dumps(status, separators=(",", ":"))
