import base64
import json
import urllib.parse
from contextlib import contextmanager

import pytest

from tests.support.http_pages import http_server
from tests.support.sockets import refusing_port
from zkbroker.config.jaas import JaasLine
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.secret import Secret
from zkbroker.errors import AuthenticationFailed, ConfigError
from zkbroker.security.sasl.token_sources import find_token, unsecured_claims
from zkbroker.security.sasl.tokens import ClaimRules, UnsecuredValidator


def own_token():
    return "of a function"


class OwnTokens:
    def __call__(self):
        return "of a class"


NUMBER = 7


def oauth(**more):
    return SaslLogin(mechanism="OAUTHBEARER", **more)


def test_token_comes_from_a_function_or_class():
    assert find_token(oauth(token=own_token)) == "of a function"
    assert find_token(oauth(token_handler=f"{__name__}:own_token")) == "of a function"
    assert find_token(oauth(token_handler=f"{__name__}:OwnTokens")) == "of a class"
    with pytest.raises(ConfigError, match="classes of Java are not run"):
        find_token(oauth(token_handler="org.acme.Java"))
    with pytest.raises(ConfigError, match="is not a function"):
        find_token(oauth(token_handler=f"{__name__}:NUMBER"))
    with pytest.raises(AuthenticationFailed, match="ZeroDivisionError"):
        find_token(oauth(token=lambda: 1 / 0))
    with pytest.raises(AuthenticationFailed, match="returned no string"):
        find_token(oauth(token=lambda: None))


def test_token_file_is_read_for_each_login(tmp_path):
    path = tmp_path / "the token"
    login = oauth(token_url=path.as_uri())
    with pytest.raises(AuthenticationFailed, match="cannot read the token"):
        find_token(login)
    for token in ("first", "second"):
        path.write_text(token + "\n")
        assert find_token(login) == token


def test_unsecured_token_of_a_jaas_line_is_accepted():
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": ",read,write",
        "unsecuredLoginNumberClaim_level": "7",
    }
    login = oauth(line=JaasLine("OAuthBearerLoginModule", options))
    rules = ClaimRules(required_scope=("read", "write"), clock_skew_s=5)
    assert UnsecuredValidator(rules)(find_token(login)) == "alice"
    assert unsecured_claims(options, 0)["level"] == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "add unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginPrincipalClaimName": "n"}, "add unsecuredLoginStringClaim_n"),
        ({"unsecuredLoginNumberClaim_x": "y"}, "give a number"),
        ({"unsecuredLoginLifetimeSeconds": "y"}, "give seconds"),
    ],
)
def test_invalid_unsecured_claims_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        unsecured_claims(options, 0)


@contextmanager
def issuer(answer, status=200):
    """A token endpoint; yields its address and the list of requests."""
    asked = []

    def issue(request):
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        asked.append((request.headers["Authorization"], urllib.parse.parse_qs(body)))
        return status, answer(len(asked)).encode()

    with http_server(issue) as server:
        yield f"{server}/token", asked


def issued_by(url):
    return oauth(token_url=url, client_id="c:1", client_secret=Secret("s&s"), scope="read write")


def test_issued_token_is_reused_until_it_expires():
    def answer(number):
        return json.dumps({"access_token": f"t{number}", "expires_in": 3600 if number > 1 else 5})

    with issuer(answer) as (url, asked):
        assert [find_token(issued_by(url)) for _ in range(3)] == ["t1", "t2", "t2"]
    authorization, form = asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"c%3A1:s%26s"
    assert form == {"grant_type": ["client_credentials"], "scope": ["read write"]}


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ("no", 401, "401"),
        ("no", 200, "not JSON with an access_token"),
        ("[]", 200, "not JSON with an access_token"),
        ('{"access_token":7}', 200, "is not a string"),
        ('{"access_token":"t","expires_in":"soon"}', 200, "expires_in is not a number"),
    ],
)
def test_response_without_token_is_an_error(answer, status, message):
    with (
        issuer(lambda number: answer, status) as (url, _),
        pytest.raises(AuthenticationFailed, match=message) as raised,
    ):
        find_token(issued_by(url))
    assert "s&s" not in str(raised.value)


def test_unreachable_token_endpoint_is_an_error():
    with refusing_port() as port, pytest.raises(AuthenticationFailed, match="no token from http"):
        find_token(issued_by(f"http://127.0.0.1:{port}/token"))
