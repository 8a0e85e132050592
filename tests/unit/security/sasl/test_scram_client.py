import base64

import pytest

from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.scram import SHA_256
from zkbroker.security.sasl.scram_client import ScramClient

SALT = base64.b64encode(b"salt").decode()


def test_exchange_matches_the_rfc_example():
    client = ScramClient(SHA_256, "user", "pencil", lambda: "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.evaluate(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert not client.complete
    assert client.evaluate(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.complete


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("", "is invalid"),
        ("e=other-error", "is invalid"),
        (f"r=xy,s={SALT},i=4095", "4095 iterations"),
        (f"r=xy,s={SALT},i=99999999", "99999999 iterations"),
        (f"r=x,s={SALT},i=4096", "nonce"),
        (f"r=y,s={SALT},i=4096", "nonce"),
        ("r=xy,s=a,i=4096", "salt"),
        (f"m=must,r=xy,s={SALT},i=4096", "is invalid"),
    ],
)
def test_invalid_server_first_message_is_refused(first, message):
    client = ScramClient(SHA_256, "user", "pencil", lambda: "x")
    with pytest.raises(LoginRefused, match=message):
        client.evaluate(first.encode())
    assert not client.complete


@pytest.mark.parametrize("final", [b"", b"v=", b"v=AAAA", b"v=?", b"e=invalid-proof", b"\xff"])
def test_broker_without_valid_signature_is_refused(final):
    client = ScramClient(SHA_256, "user", "pencil", lambda: "x")
    client.evaluate(f"r=xy,s={SALT},i=4096".encode())
    with pytest.raises(LoginRefused, match=r"prove|refuses"):
        client.evaluate(final)
    assert not client.complete
