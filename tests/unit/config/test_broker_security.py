"""Security settings of listeners, and refused ones with the line to change."""

import re

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

BASE = {"zookeeper.connect": "z:1"}
SSL = BASE | {
    "listeners": "PLAINTEXT://a:1,SSL://a:2",
    "ssl.keystore.location": "/own.pem",
}
MAPPED = BASE | {
    "listeners": "IN://a:1,OUT://a:2",
    "listener.security.protocol.map": "IN:SSL,OUT:SSL",
    "inter.broker.listener.name": "IN",
    "ssl.keystore.location": "/all.pem",
    "listener.name.out.ssl.keystore.location": "/out.pem",
    "listener.name.out.ssl.client.auth": "required",
    "listener.name.out.ssl.truststore.location": "/ca.pem",
}


def test_listener_settings_override_general_ones():
    warnings: list[str] = []
    config = BrokerConfig.from_properties(MAPPED, warn=warnings.append)
    inside, outside = config.security.listeners.values()
    assert (inside.tls.keystore_location, inside.client_auth) == ("/all.pem", "none")
    assert (outside.tls.keystore_location, outside.client_auth) == ("/out.pem", "required")
    assert outside.setting("ssl.keystore.location") == "/out.pem"
    assert inside.setting("ssl.keystore.location") == "/all.pem"
    assert (config.security.client.protocol, config.security.client.tls) == ("SSL", inside.tls)
    assert warnings == []


def test_keys_without_effect_are_warned_about():
    warnings: list[str] = []
    given = SSL | {
        "listener.name.other.ssl.keystore.location": "/k",
        "listener.name.plaintext.ssl.keystore.location": "/k",
        "ssl.keystore.lokation": "/k",
        "ssl.provider": "BC",
    }
    BrokerConfig.from_properties(given, warn=warnings.append)
    text = "\n".join(warnings)
    assert len(warnings) == 4
    assert "none is called OTHER" in text
    assert "listener PLAINTEXT speaks PLAINTEXT" in text
    assert "did you mean ssl.keystore.location?" in text
    assert "ssl.provider has no effect" in text


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("ssl.client.atuh", "ssl.client.auth"),
        ("sasl.enabled.mechanism", "sasl.enabled.mechanisms"),
        ("scram-sha-512.sasl.jaas.confg", "scram-sha-512.sasl.jaas.config"),
        ("max.connection.creation.rat", "max.connection.creation.rate"),
    ],
)
def test_misspelt_listener_setting_is_warned_about_with_nearest(key, meant):
    """A misspelt setting might leave a listener unprotected."""
    warnings: list[str] = []
    BrokerConfig.from_properties(SSL | {f"listener.name.ssl.{key}": "x"}, warn=warnings.append)
    (warning,) = warnings
    assert f"listener.name.ssl.{key} is unknown" in warning
    assert warning.endswith(f"did you mean listener.name.ssl.{meant}?")


def test_sasl_listener_requests_no_client_certificates():
    given = BASE | {
        "listeners": "PLAINTEXT://a:1,SASL_SSL://a:2",
        "ssl.keystore.location": "/own.pem",
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common."
        "security.scram.ScramLoginModule required;",
    }
    config = BrokerConfig.from_properties(given)
    assert config.security.listeners["SASL_SSL"].client_auth == "none"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ssl.keystore.location": ""}, "listener SSL speaks SSL and has no key: set ssl.keystore"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth=required needs ssl.truststore.location"),
        ({"ssl.client.auth": "requested"}, "ssl.client.auth=requested needs ssl.truststore"),
        ({"ssl.client.auth": "yes"}, "listener SSL: ssl.client.auth='yes' is not allowed"),
        ({"ssl.enabled.protocols": "SSLv3"}, "listener SSL: ssl.enabled.protocols='SSLv3'"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "listener SSL: ssl.principal.mapping.rules"),
        ({"ssl.keystore.key": "k"}, "are both set: give the private key in one way"),
        ({"listener.name.SSL.ssl.client.auth": "none"}, "written in lower case"),
        ({"listeners": "PLAINTEXT://a:1,TLS://a:2"}, "add TLS:PROTOCOL to listener.security"),
        ({"inter.broker.listener.name": "EXT"}, "inter.broker.listener.name=EXT is no listener"),
        (
            {
                "inter.broker.listener.name": "SSL",
                "security.inter.broker.protocol": "SSL",
            },
            "are both set: leave one of them out",
        ),
        ({"security.inter.broker.protocol": "SASL_SSL"}, "set inter.broker.listener.name to one"),
        ({"advertised.listeners": "SSL://a:2"}, "set inter.broker.listener.name to one of SSL"),
        ({"advertised.listeners": "SSL://a:2,EXT://b:3"}, "names EXT, and listeners does not"),
        ({"advertised.listeners": "SSL://a:2,SSL://b:3"}, "names SSL twice"),
        ({"advertised.listeners": "SSL://0.0.0.0:2"}, "no client can connect to 0.0.0.0"),
        (
            {
                "inter.broker.protocol.version": "0.8.2",
                "log.message.format.version": "0.8.2",
                "inter.broker.listener.name": "SSL",
            },
            "brokers of inter.broker.protocol.version=0.8.2 speak PLAINTEXT alone",
        ),
    ],
)
def test_invalid_security_settings_are_refused_with_line(more: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        BrokerConfig.from_properties(SSL | more)


def test_setting_belongs_to_listener_with_longest_matching_name():
    warnings: list[str] = []
    given = BASE | {
        "listeners": "SSL://a:1,SSL.IN://a:2",
        "listener.security.protocol.map": "SSL:SSL,SSL.IN:SSL",
        "inter.broker.listener.name": "SSL.IN",
        "ssl.keystore.location": "/own.pem",
        "listener.name.ssl.in.ssl.keystore.location": "/in.pem",
    }
    config = BrokerConfig.from_properties(given, warn=warnings.append)
    assert config.security.listeners["SSL.IN"].tls.keystore_location == "/in.pem"
    assert warnings == []
