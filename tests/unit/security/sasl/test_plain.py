import pytest

from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.plain import PlainServer, PlainUsers

USERS = PlainUsers({"alice": "s3cret", "é": "ü"})


def test_user_and_password_log_in():
    for token, user in (
        (b"\0alice\0s3cret", "alice"),
        (b"alice\0alice\0s3cret", "alice"),
        ("\0é\0ü".encode(), "é"),
    ):
        server = PlainServer(USERS)
        assert server.user is None
        assert server.evaluate(token) == b""
        assert server.user == user


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0mallory\0s3cret", "Invalid username or password"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"bob\0alice\0s3cret", "authorization id that is different from username"),
        (b"\0\0s3cret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"", "invalid credentials with SASL mechanism PLAIN"),
        (b"alice\0s3cret", "invalid credentials"),
        (b"\0alice\0s3cret\0", "invalid credentials"),
        (b"\0al\xffice\0s3cret", "invalid credentials"),
        (b"\0" * 100_000, "invalid credentials"),
    ],
)
def test_invalid_plain_tokens_are_refused(token, message):
    server = PlainServer(USERS)
    with pytest.raises(LoginRefused, match=message) as raised:
        server.evaluate(token)
    assert server.user is None
    assert "s3cret" not in str(raised.value)


async def check(user, password):
    return False


@pytest.mark.parametrize("own", [lambda user, password: "no", lambda user, password: None, check])
def test_password_check_must_return_a_boolean(own, recwarn):
    server = PlainServer(own)
    with pytest.raises(TypeError, match="not True or False"):
        server.evaluate(b"\0alice\0s3cret")
    assert server.user is None
