import pytest

from zkbroker.broker.dialing import Dialing, NoWay
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.secret import Secret
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import NetworkError
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import get_runtime

OWN = BrokerInfo(
    id=1,
    host="own",
    port=1,
    endpoints=("IN://own:1", "OUT://own:2"),
    protocols=(("IN", "PLAINTEXT"), ("OUT", "SSL")),
)
OTHER = BrokerInfo(id=2, host="other", port=1, endpoints=("IN://other:1",))
OLD = BrokerInfo(id=3, host="old", port=9092)


def dialed(listener, broker, protocol="PLAINTEXT"):
    login = SaslLogin(mechanism="PLAIN", username="broker", password=Secret("pw"))
    security = ClientSecurity(protocol=protocol, sasl=login if "SASL" in protocol else None)
    dialing = Dialing(get_runtime("threads"), OWN, ("127.0.0.1", 7), listener, security)
    return dialing.connection(broker, "test", 1000)


def address(line):
    assert isinstance(line, InterBrokerConnection)
    return line._host, line._port, line._server_name


def test_inter_broker_listener_is_dialed():
    assert address(dialed("IN", OTHER)) == ("other", 1, "other")
    assert address(dialed("OUT", OWN)) == ("127.0.0.1", 7, "own")


def test_plaintext_listener_is_used_instead_only_when_ours_is_plaintext():
    assert address(dialed("IN", OLD)) == ("old", 9092, "old")
    for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        line = dialed("OUT", OLD, protocol)
        assert isinstance(line, NoWay)
        with pytest.raises(NetworkError, match="broker 3 has no listener OUT: it has PLAINTEXT"):
            line.send(MetadataRequest([], False), 1)
        line.close()
