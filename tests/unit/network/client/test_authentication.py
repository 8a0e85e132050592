"""The login of a client against the broker's login gate, over a transport in memory."""

import threading
import time
from contextlib import contextmanager

import pytest

from tests.support.login_session import Gate, LoginConnection, StoredUsers, mechanisms
from tests.support.memory_transport import memory_pair
from zkbroker.broker.authentication import LOGGED_IN
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.secret import Secret
from zkbroker.errors import AuthenticationFailed, NetworkError
from zkbroker.network.client.authentication import authenticate
from zkbroker.network.frames import FrameReader
from zkbroker.protocol import ApiKey
from zkbroker.protocol import messages as protocol_messages
from zkbroker.runtime import get_runtime
from zkbroker.security.sasl import OAUTHBEARER, SCRAM_SHA_256, SCRAM_SHA_512
from zkbroker.security.sasl.oauthbearer import OAuthBearerServer
from zkbroker.security.sasl.scram import HASHES, make_credential
from zkbroker.security.sasl.tokens import ClaimRules, UnsecuredValidator

RUNTIME = get_runtime("threads")
USERS = StoredUsers({(name, "alice"): make_credential(HASHES[name], "s3cret") for name in HASHES})


def enabled():
    validator = UnsecuredValidator(ClaimRules())
    return {
        **mechanisms({"alice": "s3cret"}, USERS),
        OAUTHBEARER: lambda: OAuthBearerServer(validator),
    }


@contextmanager
def broker(gate=None, answer=None):
    """The client's end of a connection; the other end answers through the gate."""
    mine, other = memory_pair(RUNTIME)
    gate = gate or Gate(enabled())
    connection = LoginConnection()
    answer = answer or (lambda frame: gate.ask(connection, frame))

    def serve():
        reader = FrameReader(other.receive_into, 1_000_000)
        while (frame := reader.next_frame()) is not None:
            response = answer(bytes(frame))
            if response is None:
                break
            other.send([len(response).to_bytes(4, "big"), response])
            if connection.last_answer:
                break
        other.close()

    task = threading.Thread(target=serve, daemon=True)
    task.start()
    yield mine, connection
    mine.close()
    task.join(10)
    assert not task.is_alive()


def password_login(mechanism, password="s3cret", user="alice"):
    return SaslLogin(mechanism=mechanism, username=user, password=Secret(password))


def check_refused(mechanism, message, gate=None, answer=None):
    with (
        broker(gate, answer) as (transport, _),
        pytest.raises(AuthenticationFailed, match=message),
    ):
        authenticate(transport, password_login(mechanism), "b:1", RUNTIME.offload)


@pytest.fixture(params=["tokens in requests", "bare tokens"])
def age(request, monkeypatch):
    """Current brokers, and those of 0.10 without SaslAuthenticate."""
    if request.param == "bare tokens":
        spans = [
            protocol_messages.ApiVersion(17, 0, 0),
            protocol_messages.ApiVersion(ApiKey.API_VERSIONS, 0, 0),
        ]
        monkeypatch.setattr("tests.support.login_session.served_versions", lambda: spans)
    return request.param


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM_SHA_256, SCRAM_SHA_512])
def test_user_and_password_log_in(mechanism, age):
    with broker() as (transport, connection):
        authenticate(transport, password_login(mechanism), "b:1", RUNTIME.offload)
        assert str(connection.principal) == "User:alice"


def test_token_logs_in(age):
    token = "eyJhbGciOiJub25lIn0." + "eyJzdWIiOiJhbGljZSIsImV4cCI6MWUxMn0" + "."
    with broker() as (transport, connection):
        authenticate(
            transport, SaslLogin(mechanism=OAUTHBEARER, token=lambda: token), "b:1", RUNTIME.offload
        )
        assert str(connection.principal) == "User:alice"


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_wrong_password_error_names_user_and_mechanism(mechanism, user, age):
    with broker() as (transport, connection), pytest.raises(AuthenticationFailed) as raised:
        authenticate(transport, password_login(mechanism, "wr0ng", user), "b:1", RUNTIME.offload)
    message = str(raised.value)
    assert message.startswith(f"login of the user {user!r} by {mechanism} at b:1 failed: ")
    assert "wr0ng" not in message
    if age == "bare tokens":
        assert "as it does if user or password is wrong" in message
    else:
        assert "nvalid" in message
        assert "check user and password" in message
    assert not connection.logged_in


def test_refused_token_error_holds_the_status(age):
    login = SaslLogin(mechanism=OAUTHBEARER, token=lambda: "s3cret-token")
    with broker() as (transport, _), pytest.raises(AuthenticationFailed) as raised:
        authenticate(transport, login, "b:1", RUNTIME.offload)
    assert "s3cret-token" not in str(raised.value)
    assert "by OAUTHBEARER at b:1 failed" in str(raised.value)
    if age != "bare tokens":
        assert '{"status":"invalid_token"}' in str(raised.value)


def test_disabled_mechanism_error_names_the_enabled_ones():
    gate = Gate({SCRAM_SHA_512: enabled()[SCRAM_SHA_512]})
    refusal = r"by PLAIN .* the broker offers SCRAM-SHA-512: set sasl.mechanism"
    check_refused("PLAIN", refusal, gate)


def test_login_at_listener_without_sasl_fails():
    gate = Gate(enabled())
    plain = LoginConnection()
    plain.login = LOGGED_IN
    refusal = r"takes no logins: set security.protocol to PLAINTEXT or SSL"
    check_refused("PLAIN", refusal, answer=lambda frame: gate.ask(plain, frame))


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_closed_connection_during_login_fails(answers):
    gate, connection = Gate(enabled()), LoginConnection()
    left = [answers]

    def answer(frame):
        left[0] -= 1
        return gate.ask(connection, frame) if left[0] >= 0 else None

    check_refused(SCRAM_SHA_256, "the broker closed the connection", answer=answer)


@pytest.mark.parametrize(
    "nonsense", [b"", b"\0", b"\0\0\0\1", b"\xff" * 40, b"\0\0\0\7\0\0\0\0\0\0"]
)
def test_malformed_login_response_is_an_error(nonsense):
    with broker(answer=lambda frame: nonsense) as (transport, _), pytest.raises(NetworkError):
        authenticate(transport, password_login(SCRAM_SHA_256), "b:1", RUNTIME.offload)


def test_broker_without_valid_signature_is_refused():
    gate, connection = Gate(enabled()), LoginConnection()

    def answer(frame):
        response = gate.ask(connection, frame)
        if connection.logged_in and response:
            return response.replace(b"v=", b"v=AAAA")[: len(response)]
        return response

    check_refused(SCRAM_SHA_256, "did not prove", answer=answer)


def test_scram_steps_are_offloaded():
    called = []

    def offload(function):
        called.append(time.monotonic())
        return function()

    with broker() as (transport, _):
        authenticate(transport, password_login(SCRAM_SHA_256), "b:1", offload)
    assert len(called) == 3
