import pytest

from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.oauthbearer import (
    OAuthBearerClient,
    OAuthBearerServer,
    TokenRefused,
)


def validator(token):
    if token == "good":
        return "alice"
    if token == "poor":
        raise TokenRefused("no scope", "insufficient_scope", "write read")
    if token == "nobody":
        return ""
    if token == "broken":
        raise RuntimeError("a defect")
    raise TokenRefused("unknown")


class ActingAsAlice(OAuthBearerClient):
    def first(self):
        return super().first().replace(b"n,,", b"n,a=alice,")


def test_accepted_token_logs_in():
    for client in (
        OAuthBearerClient("good"),
        OAuthBearerClient("good", {"tenant": "x y"}),
        ActingAsAlice("good"),
    ):
        server = OAuthBearerServer(validator)
        assert client.evaluate(server.evaluate(client.first())) is None
        assert server.user == "alice"
        assert client.complete


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("poor", '{"status":"insufficient_scope","scope":"write read"}'),
        ("broken", '{"status":"invalid_token"}'),
        ("nobody", '{"status":"invalid_token"}'),
    ],
)
def test_refusal_ends_with_one_byte_of_the_client(token, message):
    reasons = []
    client, server = OAuthBearerClient(token), OAuthBearerServer(validator, reasons.append)
    answer = server.evaluate(client.first())
    assert answer == message.encode()
    ending = client.evaluate(answer)
    assert ending == b"\x01"
    assert not client.complete
    assert client.failure == message
    with pytest.raises(LoginRefused) as raised:
        server.evaluate(ending)
    assert str(raised.value) == message
    assert server.user is None
    assert len(reasons) == 1
    with pytest.raises(LoginRefused, match="refuses the token"):
        client.evaluate(b"more")


def test_only_that_byte_may_follow_a_refusal():
    server = OAuthBearerServer(validator)
    server.evaluate(OAuthBearerClient("bad").first())
    with pytest.raises(LoginRefused, match="invalid credentials"):
        server.evaluate(OAuthBearerClient("good").first())
    assert server.user is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,auth=Bearer good",
        b"n,,\x01auth=Bearer good",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01\x01",
        b"n,,\x01tenant=x\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x011=x\x01\x01",
        b"n,a=x=,\x01auth=Bearer good\x01\x01",
        b"n,a=bob,\x01auth=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer g\xffod\x01\x01",
    ],
)
def test_malformed_first_message_is_refused(first):
    server = OAuthBearerServer(validator)
    with pytest.raises(LoginRefused):
        server.evaluate(first)
    assert server.user is None
