"""SaslHandshake (17) and SaslAuthenticate (36): how a client logs in.

After a handshake of version 1 the tokens of the mechanism travel in SaslAuthenticate; after one of
version 0 they are frames of their own, without a header, in both directions.
"""

from dataclasses import dataclass
from typing import ClassVar

from zkbroker.protocol.api import ApiKey
from zkbroker.protocol.schema import Kind, array, int16, int64, raw, string


@dataclass(slots=True)
class SaslHandshakeRequest:
    api_key: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE

    mechanism: str = string()


@dataclass(slots=True)
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(Kind.STRING)


@dataclass(slots=True)
class SaslAuthenticateRequest:
    api_key: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE

    auth_bytes: bytes = raw()


@dataclass(slots=True)
class SaslAuthenticateResponse:
    """Args: session_lifetime_ms 0 for a session that need not authenticate again."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default="")
    auth_bytes: bytes = raw()
    session_lifetime_ms: int = int64(since=1)
