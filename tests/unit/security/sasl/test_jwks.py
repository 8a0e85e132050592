import base64
import json
import socket
import threading

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from zkbroker.errors import ConfigError
from zkbroker.security.sasl.jwks import KeySet, SignedValidator, read_url
from zkbroker.security.sasl.oauthbearer import TokenRefused
from zkbroker.security.sasl.tokens import ClaimRules, unsecured_token

NOW = 1_000_000.0
CLAIMS = {"sub": "alice", "exp": NOW + 10}
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def published(key, key_id, **more):
    kind = (
        jwt.algorithms.RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey)
        else jwt.algorithms.ECAlgorithm
    )
    return json.loads(kind.to_jwk(key.public_key())) | {"kid": key_id} | more


def key_page(*keys):
    return json.dumps({"keys": list(keys)}).encode()


class KeyPage:
    """A page of published keys, with a count of its reads and a clock."""

    def __init__(self, *keys):
        self.content = key_page(*keys)
        self.reads = 0
        self.now_s = 0.0

    def read(self, url):
        self.reads += 1
        if self.content is None:
            raise OSError("it is away")
        return self.content

    def keys(self, refresh_s=3600):
        return KeySet("https://issuer/keys", refresh_s, self.read, lambda: self.now_s)


def accept(page, token, rules=None):
    return SignedValidator(page.keys(), rules or ClaimRules(), lambda: NOW)(token)


def signed(key, key_id="k", algorithm="RS256", claims=CLAIMS):
    return jwt.encode(claims, key, algorithm, headers={"kid": key_id} if key_id else None)


def test_token_signed_by_a_published_key_is_accepted():
    page = KeyPage(
        published(OTHER, "o"), published(RSA, "k", use="sig", alg="RS256"), published(EC, "e")
    )
    assert accept(page, signed(RSA)) == "alice"
    assert accept(page, signed(EC, "e", "ES256")) == "alice"
    assert accept(KeyPage(published(RSA, "k")), signed(RSA, None, "PS512")) == "alice"


def test_other_tokens_are_refused():
    page = KeyPage(published(RSA, "k", alg="RS256"), published(EC, "e"))
    public = RSA.public_key().public_numbers().n.to_bytes(256, "big")
    shared = jwt.encode(CLAIMS, base64.b64encode(public), "HS256", headers={"kid": "k"})
    for token, message in (
        (signed(OTHER), "signature"),
        (signed(RSA, "x"), "not published"),
        (signed(RSA, None), "not published"),
        (signed(RSA, "k", "RS512"), "signature"),
        (signed(RSA, "e"), "signature"),
        (shared, "signature"),
        (unsecured_token(CLAIMS), "not published"),
        (signed(RSA)[:-4], "signature"),
        ("", "signature"),
        ("a.b.c", "signature"),
        ("a" * 300_000, "too long"),
        (signed(RSA, claims=CLAIMS | {"exp": NOW - 1}), "expired"),
        (jwt.PyJWS().encode(b"[1]", RSA, "RS256", headers={"kid": "k"}), "not a JSON object"),
    ):
        with pytest.raises(TokenRefused, match=message):
            accept(page, token)


def test_unusable_published_keys_are_ignored():
    page = KeyPage(
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s"},
        published(OTHER, "k", use="enc"),
        {"kty": "RSA", "kid": "broken", "n": "?"},
        published(RSA, "k"),
    )
    assert accept(page, signed(RSA)) == "alice"


def test_keys_are_read_again_for_a_new_id_after_a_pause():
    page = KeyPage(published(RSA, "k"))
    keys = page.keys()
    page.content = key_page(published(RSA, "k"), published(OTHER, "new"))
    assert keys.find("new") is None
    assert page.reads == 1
    page.now_s = 11
    assert keys.find("new") is not None
    assert keys.find("none") is None
    assert page.reads == 2


def test_old_keys_are_read_again_and_kept_on_failure():
    page = KeyPage(published(RSA, "k"))
    keys = page.keys(refresh_s=100)
    page.now_s = 100
    page.content = None
    assert keys.find("k") is not None
    assert page.reads == 2
    page.now_s = 201
    page.content = key_page(published(OTHER, "new"))
    assert keys.find("k") is None
    assert keys.find("new") is not None


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b"{}", b'{"keys":7}', b'{"keys":[7]}', b'{"keys":[]}', b"\xff"]
)
def test_start_without_keys_is_refused(content):
    page = KeyPage()
    page.content = content
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        page.keys()


def test_keys_are_read_from_a_file(tmp_path):
    path = tmp_path / "keys of mine.json"
    path.write_bytes(key_page(published(RSA, "k")))
    assert read_url(path.as_uri()) == path.read_bytes()
    with pytest.raises(OSError):
        read_url("file:///none")
    path.write_bytes(b"x" * 1024 * 1025)
    with pytest.raises(OSError, match="longer"):
        read_url(path.as_uri())


def test_response_that_is_not_http_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=_answer_once, args=(server, b"SSH-2.0-x\r\n"))
        answering.start()
        with pytest.raises(OSError, match="HTTP"):
            read_url(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        answering.join()


def _answer_once(server, text):
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(text)
