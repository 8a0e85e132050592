import ssl

import pytest

from zkbroker.security.tls.explain import explain_failure


def failed(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def unverified(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "unusual"
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (failed("WRONG_VERSION_NUMBER"), "does not speak TLS there"),
        (failed("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "set ssl.keystore.location"),
        (failed("TLSV1_ALERT_UNKNOWN_CA"), "broker's ssl.truststore.location"),
        (failed("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "has expired: make another"),
        (failed("TLSV1_ALERT_PROTOCOL_VERSION"), "compare ssl.enabled.protocols"),
        (failed("SSLV3_ALERT_HANDSHAKE_FAILURE"), "shares no cipher suite"),
        (failed("SOMETHING_NEW"), "TLS failed: SOMETHING_NEW"),
        (ssl.SSLEOFError(8, "eof"), "closed the connection during the TLS handshake"),
        (ConnectionResetError(104, "reset"), "closed the connection during the TLS handshake"),
        (OSError("else"), "else"),
        (unverified(10), "has expired"),
        (unverified(9), "not valid yet"),
        (unverified(62), "not for broker.example: connect to a name"),
        (unverified(64), "not for broker.example"),
        (unverified(18), "signed by itself"),
        (unverified(19), "authority that is not trusted"),
        (unverified(20), "authority that is not trusted"),
        (unverified(23), "revoked"),
        (unverified(26), "serverAuth"),
        (unverified(99), "unusual"),
    ],
)
def test_every_failure_says_what_to_change(error, said):
    assert said in explain_failure(error, "broker.example")
