"""SaslHandshake and SaslAuthenticate where no login is expected: error 34.

They reach a handler after a login, and on listeners without logins; `broker.authentication` answers
all others.
"""

from zkbroker.broker.context import RequestContext
from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_WHY = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """Refuse a handshake."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    """Refuse a token."""
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _WHY)
