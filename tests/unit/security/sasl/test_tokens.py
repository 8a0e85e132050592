import pytest

from zkbroker.security.sasl.oauthbearer import TokenRefused
from zkbroker.security.sasl.tokens import ClaimRules, UnsecuredValidator, unsecured_token

NOW = 1_000_000.0
RULES = ClaimRules(
    required_scope=("read", "write"), issuer="me", audience=("kafka", "other"), clock_skew_s=5
)
GOOD = {
    "sub": "alice",
    "exp": NOW + 10,
    "iat": NOW - 10,
    "scope": "write read more",
    "iss": "me",
    "aud": ["x", "kafka"],
}


def test_valid_claims_give_the_user():
    assert RULES.user(GOOD, NOW) == "alice"
    assert RULES.user(GOOD | {"scope": ["read", "write"], "aud": "other"}, NOW) == "alice"
    assert RULES.user(GOOD | {"exp": NOW - 4, "nbf": NOW + 4}, NOW) == "alice"
    assert ClaimRules(user_claim="name").user({"name": "b", "exp": NOW + 1}, NOW) == "b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sub": None}, "names no user"),
        ({"sub": " "}, "names no user"),
        ({"sub": 7}, "names no user"),
        ({"exp": None}, "exp is missing"),
        ({"exp": "soon"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": float("nan")}, "exp is not a time"),
        ({"exp": NOW - 5}, "expired"),
        ({"nbf": NOW + 6}, "becomes valid"),
        ({"iat": NOW + 6}, "becomes valid"),
        ({"iat": 1e400}, "becomes valid"),
        ({"iss": "you"}, "issuer is not me"),
        ({"aud": "third"}, "audience is none of"),
        ({"aud": None}, "audience is none of"),
        ({"scope": "read"}, "does not grant write"),
        ({"scope": 7}, "does not grant read write"),
    ],
)
def test_invalid_claims_are_refused(change, message):
    with pytest.raises(TokenRefused, match=message) as raised:
        RULES.user(GOOD | change, NOW)
    assert (raised.value.status == "insufficient_scope") == ("grant" in message)


def test_unsecured_token_is_accepted():
    accept = UnsecuredValidator(ClaimRules(), lambda: NOW)
    assert accept(unsecured_token({"sub": "alice", "exp": NOW + 1})) == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "a.b.",
        "..",
        "e30.e30.",
        "W10.e30.",
        unsecured_token({"sub": "alice", "exp": NOW + 1}) + "c2ln",
        unsecured_token({"sub": "alice", "exp": NOW - 1}),
        unsecured_token({"sub": "alice", "exp": NOW + 1}).replace(".", ".?", 1),
        "eyJhbGciOiJub25lIn0." + "W1tb" * 40_000 + ".",
        "a" * 300_000,
    ],
)
def test_invalid_unsecured_token_is_refused(token):
    with pytest.raises(TokenRefused):
        UnsecuredValidator(ClaimRules(), lambda: NOW)(token)
