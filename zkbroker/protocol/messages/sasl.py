"""SaslHandshake (17) and SaslAuthenticate (36): the login of a client.

After a handshake of version 1 the tokens of the mechanism are sent in SaslAuthenticate; after one
of version 0 they are bare frames without a header, in both directions.
"""

from zkbroker.protocol.schema import Kind, Request, array, int16, int64, raw, string, wire_message


@wire_message
class SaslHandshakeRequest(Request):
    mechanism: str = string()


@wire_message
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(Kind.STRING)


@wire_message
class SaslAuthenticateRequest(Request):
    auth_bytes: bytes = raw()


@wire_message
class SaslAuthenticateResponse:
    """Args: session_lifetime_ms: 0 for a session that need not authenticate again."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default="")
    auth_bytes: bytes = raw()
    session_lifetime_ms: int = int64(since=1)
