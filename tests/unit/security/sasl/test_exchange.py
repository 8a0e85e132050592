import pytest

from zkbroker.security import Principal
from zkbroker.security.sasl.exchange import OutOfOrder, Phase, ServerExchange
from zkbroker.security.sasl.mechanism import LoginRefused


class FakeMechanism:
    """A mechanism that accepts the token `yes` after any number of tokens `more`."""

    waits = False

    def __init__(self):
        self.user = None

    def evaluate(self, token):
        if token == b"yes":
            self.user = "alice"
            return b"welcome"
        if token == b"more":
            return b"go on"
        raise LoginRefused("no")


def exchange():
    return ServerExchange({"ONE": FakeMechanism, "TWO": FakeMechanism})


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_login_reaches_done_with_a_principal(bare, asked):
    login = exchange()
    assert login.enabled == ["ONE", "TWO"]
    if asked:
        login.versions(answered=False)
        login.versions(answered=True)
    assert login.handshake("TWO", bare=bare)
    assert login.phase is (Phase.BARE if bare else Phase.TOKENS)
    assert login.token(b"more") == b"go on"
    assert login.principal is None
    assert login.token(b"yes") == b"welcome"
    assert login.phase is Phase.DONE
    assert login.principal == Principal("User", "alice")
    assert login.mechanism == "TWO"


def test_unknown_mechanism_ends_the_login():
    login = exchange()
    assert not login.handshake("GSSAPI", bare=False)
    with pytest.raises(OutOfOrder):
        login.handshake("ONE", bare=False)
    assert login.phase is Phase.FAILED


def test_refused_token_ends_the_login():
    login = exchange()
    login.handshake("ONE", bare=False)
    with pytest.raises(LoginRefused):
        login.token(b"wrong")
    with pytest.raises(OutOfOrder):
        login.token(b"yes")
    assert login.principal is None


def test_number_of_tokens_is_bounded():
    login = exchange()
    login.handshake("ONE", bare=False)
    for _ in range(8):
        login.token(b"more")
    with pytest.raises(OutOfOrder):
        login.token(b"yes")
    assert login.principal is None


@pytest.mark.parametrize(
    "steps",
    [
        lambda login: login.token(b"yes"),
        lambda login: (login.versions(answered=True), login.versions(answered=True)),
        lambda login: (login.handshake("ONE", bare=True), login.versions(answered=True)),
        lambda login: (login.handshake("ONE", bare=True), login.handshake("ONE", bare=True)),
        lambda login: (login.handshake("ONE", bare=True), login.token(b"yes"), login.token(b"yes")),
    ],
)
def test_step_out_of_order_ends_the_login(steps):
    login = exchange()
    with pytest.raises(OutOfOrder, match="is not allowed now"):
        steps(login)
    assert login.phase is Phase.FAILED


def test_refusal_without_login_names_the_setting():
    login = exchange()
    login.versions(answered=True)
    assert "set security.protocol=SASL_SSL" in str(login.refuse("METADATA"))
