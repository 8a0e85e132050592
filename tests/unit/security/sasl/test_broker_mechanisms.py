import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.login_session import StoredUsers
from zkbroker.config.sasl_listeners import MODULES, listener_sasl
from zkbroker.errors import ConfigError
from zkbroker.security.sasl import OAUTHBEARER, PLAIN
from zkbroker.security.sasl.broker_mechanisms import broker_mechanisms
from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.oauthbearer import OAuthBearerClient
from zkbroker.security.sasl.plain import PlainClient
from zkbroker.security.sasl.scram import SHA_512, make_credential
from zkbroker.security.sasl.scram_client import ScramClient
from zkbroker.security.sasl.scram_server import ScramSecret
from zkbroker.security.sasl.tokens import unsecured_token

HANDLER = "sasl.server.callback.handler.class"


def own_check(user, password):
    return password == user[::-1]


class OwnValidator:
    def __call__(self, token):
        return f"owner of {token}"


NOT_CALLABLE = 7


def made(mechanism, settings=None, options="", users=None):
    properties = {
        "sasl.enabled.mechanisms": mechanism,
        f"listener.name.x.{mechanism.lower()}.sasl.jaas.config": (
            f"{MODULES[mechanism]} required {options};"
        ),
        **(settings or {}),
    }
    sasl = listener_sasl("X", properties, environment={})
    return broker_mechanisms(sasl, StoredUsers(users or {}), ScramSecret(b"k"))[mechanism]


def log_in(make, client):
    server = make()
    token = client.first()
    while server.user is None and token is not None:
        token = client.evaluate(server.evaluate(token))
    return server.user


def test_users_of_a_jaas_line_log_in_by_plain():
    make = made(PLAIN, options='user_alice="a,b" user_bob="x"')
    assert log_in(make, PlainClient("alice", "a,b")) == "alice"
    with pytest.raises(LoginRefused):
        log_in(make, PlainClient("bob", "a,b"))


def test_custom_function_checks_passwords():
    make = made(PLAIN, {HANDLER: f"{__name__}:own_check"})
    assert log_in(make, PlainClient("alice", "ecila")) == "alice"
    with pytest.raises(LoginRefused):
        log_in(make, PlainClient("alice", "alice"))


def test_users_in_zookeeper_log_in_by_scram():
    name = SHA_512.mechanism
    make = made(name, users={(name, "alice"): make_credential(SHA_512, "pw")})
    assert log_in(make, ScramClient(SHA_512, "alice", "pw")) == "alice"


def test_jaas_line_configures_unsecured_tokens(caplog):
    make = made(
        OAUTHBEARER,
        options='unsecuredValidatorPrincipalClaimName="name" '
        'unsecuredValidatorRequiredScope="read" unsecuredValidatorAllowableClockSkewMs="5000"',
    )
    claims = {"name": "alice", "exp": time.time() - 1, "scope": "read"}
    assert "log in as any user" in caplog.text
    assert log_in(make, OAuthBearerClient(unsecured_token(claims))) == "alice"
    with pytest.raises(LoginRefused):
        log_in(make, OAuthBearerClient(unsecured_token(claims | {"scope": "write"})))


def test_signed_tokens_are_verified_with_keys_of_a_file(tmp_path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": "k"}
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [public]}))
    prefix = "sasl.oauthbearer."
    make = made(
        OAUTHBEARER,
        {
            f"{prefix}jwks.endpoint.url": path.as_uri(),
            f"{prefix}expected.issuer": "me",
            f"listener.name.x.oauthbearer.{prefix}expected.audience": "other, kafka",
            f"{prefix}expected.scope": "read",
            f"{prefix}sub.claim.name": "name",
            f"{prefix}clock.skew.seconds": "60",
        },
    )
    claims = {
        "name": "alice",
        "exp": time.time() - 30,
        "iss": "me",
        "aud": "kafka",
        "scope": "read more",
    }

    def token(**changes):
        return jwt.encode(claims | changes, key, "RS256", headers={"kid": "k"})

    assert log_in(make, OAuthBearerClient(token())) == "alice"
    for changes in ({"iss": "you"}, {"aud": "x"}, {"scope": "x"}, {"exp": time.time() - 90}):
        with pytest.raises(LoginRefused):
            log_in(make, OAuthBearerClient(token(**changes)))
    with pytest.raises(LoginRefused):
        log_in(make, OAuthBearerClient(unsecured_token(claims)))


def test_custom_class_validates_tokens(caplog):
    make = made(OAUTHBEARER, {HANDLER: f"{__name__}:OwnValidator"})
    assert log_in(make, OAuthBearerClient("x")) == "owner of x"


JWKS = "sasl.oauthbearer.jwks.endpoint"
NO_FILE = {f"{JWKS}.url": "file:///none"}


@pytest.mark.parametrize(
    ("mechanism", "settings", "options", "message"),
    [
        (PLAIN, {HANDLER: "none.such:thing"}, "", r"name\.x\.plain\.sasl\.server.*cannot"),
        (PLAIN, {HANDLER: f"{__name__}:NOT_CALLABLE"}, "", "is not a function"),
        (OAUTHBEARER, {HANDLER: "org.acme.JavaHandler"}, "", "classes of Java are not run"),
        (OAUTHBEARER, {f"{JWKS}.url": "ftp://x"}, "", "give https"),
        (OAUTHBEARER, NO_FILE, "", "cannot be read"),
        (OAUTHBEARER, NO_FILE | {f"{JWKS}.refresh.ms": "often"}, "", "refresh.ms='often' is not"),
        (OAUTHBEARER, {}, 'unsecuredValidatorAllowableClockSkewMs="-1"', "give milliseconds"),
    ],
)
def test_unusable_mechanism_settings_are_refused(mechanism, settings, options, message):
    with pytest.raises(ConfigError, match=message):
        made(mechanism, settings, options)
