"""Explanations of a failed handshake, for a client and for the log of a broker."""

import ssl

import pytest

from zkbroker.security.tls.explain import explain_failure, explain_refusal, is_plain


def failed(reason):
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def unverified(code):
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "unusual"
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (failed("WRONG_VERSION_NUMBER"), "does not speak TLS there"),
        (failed("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "set ssl.keystore.location"),
        (failed("TLSV1_ALERT_UNKNOWN_CA"), "broker's ssl.truststore.location"),
        (failed("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "has expired: renew it"),
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
        (unverified(18), "self-signed"),
        (unverified(19), "authority that is not trusted"),
        (unverified(20), "authority that is not trusted"),
        (unverified(23), "revoked"),
        (unverified(26), "serverAuth"),
        (unverified(99), "unusual"),
    ],
)
def test_client_error_explains_the_failure(error, message):
    assert message in explain_failure(error, "broker.example")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (failed("WRONG_VERSION_NUMBER"), "does not speak TLS"),
        (failed("HTTP_REQUEST"), "an HTTP request"),
        (failed("PEER_DID_NOT_RETURN_A_CERTIFICATE"), "ssl.client.auth=required"),
        (failed("NO_SHARED_CIPHER"), "ssl.cipher.suites"),
        (failed("UNSUPPORTED_PROTOCOL"), "ssl.enabled.protocols"),
        (
            failed("TLSV1_ALERT_UNKNOWN_CA"),
            "does not trust the authority that signed this broker's",
        ),
        (failed("SOMETHING_NEW"), "SOMETHING_NEW"),
        (ssl.SSLEOFError(8, "eof"), "left during the handshake"),
        (ConnectionResetError(104, "reset"), "left during the handshake"),
        (unverified(10), "has expired"),
        (unverified(19), "authority that is not in ssl.truststore.location"),
        (unverified(99), "unusual"),
    ],
)
def test_broker_log_explains_the_refusal(error, message):
    assert message in explain_refusal(error)


def test_plaintext_peer_is_recognised():
    assert is_plain(failed("WRONG_VERSION_NUMBER"))
    assert not is_plain(failed("NO_SHARED_CIPHER"))
    assert not is_plain(ConnectionResetError(104, "reset"))
