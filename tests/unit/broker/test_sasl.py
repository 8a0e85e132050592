from zkbroker.broker.handlers.sasl import sasl_authenticate, sasl_handshake
from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest


def test_sasl_requests_are_refused_without_a_gate():
    refused = sasl_handshake(SaslHandshakeRequest("PLAIN"), None)
    assert (refused.error_code, refused.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    refused = sasl_authenticate(SaslAuthenticateRequest(b"x"), None)
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert refused.error_message.startswith("SaslAuthenticate request received after")
