"""Login gates are made for the SASL listeners."""

from types import SimpleNamespace

import pytest

from tests.support.login_session import LoginConnection, request_frame
from tests.support.sasl_cluster import BROKERS, LISTENER, broker_properties, line
from zkbroker.broker.authentication import LOGGED_IN
from zkbroker.broker.logins import login_gates
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.user_settings import UserSettings
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError
from zkbroker.network.server.session import CloseConnection
from zkbroker.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs
from zkbroker.runtime import get_runtime
from zkbroker.security.sasl.scram import SHA_512, make_credential
from zkbroker.security.sasl.scram_client import ScramClient


def services():
    return SimpleNamespace(
        runtime=get_runtime("gevent"),
        users=UserSettings(),
        metrics=BrokerMetrics(),
        view=SimpleNamespace(cluster_id="c"),
    )


def logins(own=None, **changes):
    properties = broker_properties() | {
        "zookeeper.connect": "z:1",
        "connection.failed.authentication.delay.ms": "1",
    }
    for key, value in changes.items():
        properties[key.replace("_", ".")] = value
    config = BrokerConfig.from_properties(properties, warn=lambda text: None)
    return login_gates(
        config, own or services(), lambda session, frame: [b"served"], lambda: b"s" * 32
    )


def test_only_sasl_listeners_have_gates():
    made = logins()
    assert set(made) == {LISTENER, BROKERS}
    assert {each.max_frame_bytes for each in made.values()} == {512 * 1024}
    config = BrokerConfig.from_properties({"zookeeper.connect": "z:1"})
    assert login_gates(config, services(), lambda session, frame: None, no_secret) == {}


def test_request_limit_below_login_limit_is_kept():
    made = logins(socket_request_max_bytes="1000")
    assert {each.max_frame_bytes for each in made.values()} == {1000}


def test_login_uses_the_current_users_of_zookeeper():
    own = services()
    gate = logins(own)[LISTENER]

    def log_in():
        connection = LoginConnection()
        connection.listener = LISTENER
        client = ScramClient(SHA_512, "alice", "pw")
        handshake = request_frame(SaslHandshakeRequest("SCRAM-SHA-512"), 0)
        token = handshake
        try:
            for step in (client.first, client.first):
                answer = b"".join(gate.handle(connection, memoryview(bytearray(token))))
                token = step() if token is handshake else client.evaluate(answer[4:])
            gate.handle(connection, memoryview(bytearray(token)))
        except CloseConnection:
            return False
        return connection.login is LOGGED_IN

    assert not log_in()
    stored = {"SCRAM-SHA-512": make_credential(SHA_512, "pw").text()}
    own.users.take(UserConfigs({ConfigEntity(user="alice"): stored}))
    assert log_in()
    own.users.take(UserConfigs())
    assert not log_in()
    assert own.metrics.logins == {
        (LISTENER, "SCRAM-SHA-512", False): 2,
        (LISTENER, "SCRAM-SHA-512", True): 1,
    }


def test_missing_token_validator_is_refused():
    key = f"listener.name.{LISTENER.lower()}.oauthbearer.sasl.server.callback.handler.class"
    with pytest.raises(ConfigError, match="cannot be imported"):
        logins(**{key: "none.such:thing"})


def test_custom_function_validates_tokens():
    prefix = f"listener.name.{LISTENER.lower()}.oauthbearer"
    made = logins(
        **{
            f"{prefix}.sasl.server.callback.handler.class": f"{__name__}:validate",
            f"{prefix}.sasl.jaas.config": line("OAUTHBEARER"),
        }
    )
    connection = LoginConnection()
    connection.listener = LISTENER
    handle = made[LISTENER].handle
    for request in (
        SaslHandshakeRequest("OAUTHBEARER"),
        SaslAuthenticateRequest(b"n,,\x01auth=Bearer tok\x01\x01"),
    ):
        handle(connection, memoryview(bytearray(request_frame(request, request.api_key == 17))))
    assert str(connection.principal) == "User:tok"


def validate(token):
    return token


def no_secret():
    raise AssertionError("no SCRAM secret is needed")
