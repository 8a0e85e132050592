import socket
from types import SimpleNamespace

import pytest

from zkbroker.broker.listening import (
    creation_limits,
    listen,
    local_address,
    registration,
)
from zkbroker.broker.quotas.table import ADDRESS_RATE
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.broker_security import BrokerSecurity
from zkbroker.errors import StorageError
from zkbroker.network.server.connection_rates import CreationLimits
from zkbroker.network.server.tls import ListenersTls
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity, UserConfigs


def config(port=0, **more):
    return BrokerConfig(zookeeper_connect="127.0.0.1:1", host="127.0.0.1", port=port, **more)


@pytest.fixture
def bound():
    server = listen(config(), ListenersTls(BrokerSecurity()))
    yield server
    server.stop(0)


def test_bound_address_is_registered(bound):
    [(_, port)] = bound.addresses.values()
    own = registration(config(rack="r1"), 3, bound)
    assert (own.id, own.host, own.port, own.rack) == (3, "127.0.0.1", port, "r1")
    assert own.endpoints == (f"PLAINTEXT://127.0.0.1:{port}",)


def test_port_in_use_error_names_the_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=f":{port}.*another one with port"):
            listen(config(port), ListenersTls(BrokerSecurity()))


@pytest.mark.parametrize(
    ("listened", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.1", "10.0.0.1")],
)
def test_local_address_of_a_wildcard_listener_is_loopback(listened, reached):
    server = SimpleNamespace(addresses={"PLAINTEXT": (listened, 9092)})
    assert local_address(server, "PLAINTEXT") == (reached, 9092)


def test_connection_rates_come_from_settings_and_zookeeper():
    config = BrokerConfig.from_properties(
        {
            "zookeeper.connect": "z",
            "listeners": "PLAINTEXT://:9092,OUT://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
            "max.connection.creation.rate": "50",
            "listener.name.out.max.connection.creation.rate": "7",
        }
    )
    users = UserConfigs(
        {
            ConfigEntity(ip="10.0.0.1"): {ADDRESS_RATE: "3"},
            ConfigEntity(ip=DEFAULT): {ADDRESS_RATE: "5"},
            ConfigEntity(ip="10.0.0.2"): {ADDRESS_RATE: "many"},
            ConfigEntity(user="u"): {ADDRESS_RATE: "9"},
        }
    )
    found = creation_limits(config, users)
    assert (found.broker, found.listeners, found.exempt) == (50, {"OUT": 7}, "PLAINTEXT")
    assert (found.addresses, found.other_addresses) == ({"10.0.0.1": 3.0}, 5.0)
    one = BrokerConfig.from_properties({"zookeeper.connect": "z"})
    assert creation_limits(one, UserConfigs()) == CreationLimits()
