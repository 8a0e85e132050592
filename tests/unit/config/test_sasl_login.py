import pytest

from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ConfigError

LINE = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
SASL = {"security.protocol": "SASL_PLAINTEXT"}
TOKENS = "sasl.oauthbearer.token.endpoint.url"


def login(**properties):
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return ClientSecurity.from_properties(SASL | given).sasl


def test_user_and_password_in_each_form():
    for made in (
        login(sasl_mechanism="plain", sasl_username="a", sasl_password="hush"),
        login(sasl_mechanisms="PLAIN", sasl_username="a", sasl_password="hush"),
        login(sasl_mechanism="PLAIN", sasl_jaas_config=LINE.format('username="a" password="hush"')),
    ):
        assert (made.mechanism, made.user, made.user_password) == ("PLAIN", "a", "hush")
        assert "hush" not in f"{made} {made!r}"


def test_token_sources():
    line = LINE.replace("plain.Plain", "oauthbearer.OAuthBearer")
    for more in (
        {"sasl.login.callback.handler.class": "a.b:c"},
        {TOKENS: "file:///t"},
        {TOKENS: "https://i/t", "sasl.jaas.config": line.format('clientId="c" clientSecret="s"')},
        {
            TOKENS: "https://i/t",
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": "s",
        },
        {"sasl.jaas.config": line.format('unsecuredLoginStringClaim_sub="a"')},
    ):
        made = ClientSecurity.from_properties(SASL | {"sasl.mechanism": "OAUTHBEARER"} | more).sasl
        assert made.mechanism == "OAUTHBEARER"
        if "clientId" in str(more) or "client.id" in str(more):
            assert made.client == ("c", "s", "")
    assert SaslLogin(mechanism="OAUTHBEARER", token=lambda: "t").token() == "t"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs a login: set sasl.mechanism"),
        ({"sasl.username": "a"}, "sasl.mechanism is missing: set sasl.mechanism to one of PLAIN"),
        ({"sasl.mechanism": "GSSAPI"}, "Kerberos"),
        ({"sasl.mechanism": "CRAM-MD5"}, "sasl.mechanism=CRAM-MD5 is not supported"),
        ({"sasl.mechanism": "PLAIN"}, "needs a user: set sasl.username, or sasl.jaas.config"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "needs a password"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": LINE.format('username="a"')},
            "needs a password: add password to sasl.jaas.config",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": LINE.format('username="a" password="b"'),
                "sasl.username": "c",
            },
            "are both set",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}, "is no JAAS configuration"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "needs tokens: set sasl.oauthbearer.token.endpoint"),
        ({"sasl.mechanism": "OAUTHBEARER", TOKENS: "ftp://x"}, "give https"),
        ({"sasl.mechanism": "OAUTHBEARER", TOKENS: "https://x"}, "needs a client: add clientId"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a\0", "sasl.password": "b"}, "NUL"),
    ],
)
def test_incomplete_login_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        ClientSecurity.from_properties(SASL | given)
