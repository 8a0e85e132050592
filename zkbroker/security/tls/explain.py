"""Explains TLS failures in sentences that say what to change.

Invariant: every sentence names the side that must change something; OpenSSL's own words appear only
if no better ones are known.
"""

import ssl

_EXPIRED, _NOT_YET_VALID = 10, 9
_SELF_SIGNED = 18
# Self-signed in the chain, no issuer, no issuer of the first one; 7 and 30 (signature, key
# mismatch): an authority of the same name has another key.
_UNKNOWN_AUTHORITY = (19, 20, 21, 7, 30)
_REVOKED, _WRONG_PURPOSE = 23, 26
_OTHER_HOST, _OTHER_ADDRESS = 62, 64

_PLAIN_PORT = (
    "it does not speak TLS there: give the port of an SSL or SASL_SSL listener, or set "
    "security.protocol=PLAINTEXT (or SASL_PLAINTEXT)"
)
_NO_CLOSING = (
    "it closed the connection during the TLS handshake: is that the port of an SSL or SASL_SSL "
    "listener?"
)
_ALERTS = {
    "CERTIFICATE_REQUIRED": "it asks for a certificate of the client (ssl.client.auth=required): "
    "set ssl.keystore.location",
    "ALERT_HANDSHAKE_FAILURE": "it shares no cipher suite with this client, or asks for a "
    "certificate of the client (ssl.client.auth=required): set ssl.keystore.location, or compare "
    "ssl.cipher.suites",
    "ALERT_BAD_CERTIFICATE": "it refuses the certificate of this client: see the broker's log",
    "ALERT_UNKNOWN_CA": "it does not trust the authority that signed the certificate of this "
    "client: add that authority to the broker's ssl.truststore.location",
    "ALERT_CERTIFICATE_UNKNOWN": "it refuses the certificate of this client: see the broker's log",
    "ALERT_CERTIFICATE_EXPIRED": "it refuses the certificate of this client, which has expired: "
    "renew it",
    "ALERT_CERTIFICATE_REVOKED": "it refuses the certificate of this client, which was revoked",
    "ALERT_PROTOCOL_VERSION": "it shares no version of TLS with this client: compare "
    "ssl.enabled.protocols",
    "UNSUPPORTED_PROTOCOL": "it shares no version of TLS with this client: compare "
    "ssl.enabled.protocols",
    "NO_PROTOCOLS_AVAILABLE": "ssl.enabled.protocols leaves no version of TLS that OpenSSL speaks",
}
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def explain_failure(error: OSError, host: str) -> str:
    """Return the reason for which a client's handshake, or a read after it, failed.

    Args:
        error: the error that it raised.
        host: of the broker.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error, host)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or ""
        if any(name in reason for name in _NO_TLS):
            return _PLAIN_PORT
        for name, sentence in _ALERTS.items():
            if name in reason:
                return sentence
        if isinstance(error, ssl.SSLEOFError) or "UNEXPECTED_EOF" in reason:
            return _NO_CLOSING
        return f"TLS failed: {reason or error}"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return _NO_CLOSING
    return str(error)


_PLAIN_CLIENT = (
    "a client that does not speak TLS: set security.protocol=SSL (or SASL_SSL) there, or give it "
    "the port of another listener"
)
_REFUSALS = {
    "HTTP_REQUEST": "an HTTP request at a listener of TLS",
    "WRONG_VERSION_NUMBER": _PLAIN_CLIENT,
    "PACKET_LENGTH_TOO_LONG": _PLAIN_CLIENT,
    "RECORD_LAYER_FAILURE": _PLAIN_CLIENT,
    "BAD_RECORD_TYPE": _PLAIN_CLIENT,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and "
    "ssl.client.auth=required: give it a key (ssl.keystore.location)",
    "NO_SHARED_CIPHER": "the client shares no cipher suite: compare ssl.cipher.suites, and the "
    "kind of this broker's key",
    "UNSUPPORTED_PROTOCOL": "the client speaks no version of ssl.enabled.protocols",
    "ALERT_UNKNOWN_CA": "the client does not trust the authority that signed this broker's "
    "certificate: give it that authority (ssl.truststore.location)",
    "ALERT_CERTIFICATE_UNKNOWN": "the client refuses this broker's certificate: its authority, "
    "its host name or its dates",
    "ALERT_BAD_CERTIFICATE": "the client refuses this broker's certificate: its authority, its "
    "host name or its dates",
    "ALERT_CERTIFICATE_EXPIRED": "the client says that this broker's certificate has expired",
}
_OF_BROKERS = {
    _EXPIRED: "has expired: the broker needs a new one (or the clock is wrong)",
    _NOT_YET_VALID: "is not valid yet: set the clocks of both sides",
    _SELF_SIGNED: "is self-signed and not trusted: put it into ssl.truststore.location "
    "(ssl.ca.location) if it is the right one",
    _REVOKED: "was revoked: the broker needs a new one",
    _WRONG_PURPOSE: "is not for servers (extended key usage): make one with serverAuth",
    **dict.fromkeys(
        _UNKNOWN_AUTHORITY,
        "is signed by an authority that is not trusted: put that authority into "
        "ssl.truststore.location (ssl.ca.location)",
    ),
}
_OF_CLIENTS = {
    _EXPIRED: "has expired",
    _NOT_YET_VALID: "is not valid yet",
    _SELF_SIGNED: "is self-signed, and not in ssl.truststore.location",
    _REVOKED: "was revoked",
    _WRONG_PURPOSE: "is not for clients (extended key usage)",
    **dict.fromkeys(
        _UNKNOWN_AUTHORITY,
        "is signed by an authority that is not in ssl.truststore.location",
    ),
}


def is_plain(error: OSError) -> bool:
    """Whether a handshake failed because the client does not speak TLS."""
    reason = getattr(error, "reason", None) or ""
    return any(why == _PLAIN_CLIENT and name in reason for name, why in _REFUSALS.items())


def explain_refusal(error: OSError) -> str:
    """Return the reason for which the handshake of a client failed, for a broker's log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _OF_CLIENTS.get(error.verify_code, f"is refused: {error.verify_message}")
        return f"the client's certificate {why}"
    reason = getattr(error, "reason", None) or ""
    for name, sentence in _REFUSALS.items():
        if name in reason:
            return sentence
    if isinstance(error, ssl.SSLEOFError | ConnectionError) or "UNEXPECTED_EOF" in reason:
        return "the client left during the handshake: it may not trust this broker's certificate"
    return f"the handshake failed: {reason or error}"


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"its certificate is not for {host}: connect to a name that the certificate has, or "
            f"give the broker one with {host} as subject alternative name"
        )
    why = _OF_BROKERS.get(error.verify_code, f"is refused: {error.verify_message}")
    return f"its certificate {why}"
