"""Security settings of clients, under the names of Kafka's clients and of librdkafka."""

import pickle

import pytest

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.secret import Secret
from zkbroker.config.security import NO_SECURITY, ClientSecurity, take_security
from zkbroker.errors import ConfigError

CLIENTS = [
    (ProducerConfig, {"metadata.broker.list": "b:1"}),
    (ConsumerConfig, {"group.id": "g", "zookeeper.connect": "z:1"}),
    (GroupConsumerConfig, {"group.id": "g", "bootstrap.servers": "b:1"}),
]
SSL = {"security.protocol": "ssl", "ssl.truststore.location": "/ca.pem"}


@pytest.mark.parametrize(("config", "given"), CLIENTS)
def test_all_clients_have_security_settings(config, given):
    warnings: list[str] = []
    found = config.from_properties(given | SSL, warn=warnings.append)
    assert found.security.protocol == "SSL"
    assert found.security.tls.truststore_location == "/ca.pem"
    plain = config.from_properties(given)
    assert plain.security == NO_SECURITY
    named = given | {"security.protocol": "PLAINTEXT"}
    assert config.from_properties(named, warn=warnings.append) == plain
    assert warnings == []


def test_names_of_librdkafka_are_read():
    found = ClientSecurity.from_properties(
        {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/c.pem",
            "ssl.key.location": "/k.pem",
            "ssl.key.password": "pw",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hush",
        }
    )
    assert found.tls.truststore_location == "/ca.pem"
    assert found.tls.files == ("/c.pem", "/k.pem", "/ca.pem")
    assert found.tls.has_key
    assert found.sasl is not None
    assert (found.sasl.mechanism, found.sasl.username) == ("PLAIN", "alice")
    assert found.sasl.password == Secret("hush")
    assert "hush" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_host_check_can_be_disabled():
    assert ClientSecurity.from_properties(SSL).tls.checks_host
    for text in ("", "none"):
        left_out = SSL | {"ssl.endpoint.identification.algorithm": text}
        assert not ClientSecurity.from_properties(left_out).tls.checks_host


def test_tls_below_1_2_must_be_enabled():
    assert ClientSecurity.from_properties(SSL).tls.versions == ("TLSv1.2", "TLSv1.3")
    older = SSL | {"ssl.enabled.protocols": "tlsv1.2,TLSv1"}
    assert ClientSecurity.from_properties(older).tls.versions == ("TLSv1.2", "TLSv1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol='TLS' is not allowed: give one of PLAIN"),
        ({"security.protocol": "SASL_SSL"}, "needs a login: set sasl.mechanism"),
        (SSL | {"ssl.keystore.key": "k"}, "ssl.keystore.key needs ssl.keystore.certificate.chain"),
        (SSL | {"ssl.keystore.certificate.chain": "c"}, "needs ssl.keystore.key beside it"),
        (SSL | {"ssl.key.location": "k"}, "ssl.key.location needs ssl.certificate.location"),
        (SSL | {"ssl.certificate.location": "k"}, "needs ssl.key.location beside it"),
        (
            SSL | {"ssl.keystore.location": "a", "ssl.key.location": "b"},
            "ssl.keystore.location and ssl.key.location are both set",
        ),
        (SSL | {"ssl.truststore.certificates": "c"}, "are both set: give one"),
        (SSL | {"ssl.enabled.protocols": "SSLv3"}, "give some of TLSv1, TLSv1.1, TLSv1.2"),
        (SSL | {"ssl.enabled.protocols": ""}, "ssl.enabled.protocols=''"),
        (SSL | {"ssl.keystore.type": "BKS"}, "ssl.keystore.type='BKS' is not allowed"),
        (SSL | {"ssl.engine.factory.class": "X"}, "Java classes cannot be loaded"),
        (SSL | {"ssl.crl.location": "X"}, "ssl.crl.location is not supported"),
    ],
)
def test_invalid_security_settings_are_refused(given, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        ClientSecurity.from_properties(given)


def test_keys_without_effect_are_warned_about():
    warnings: list[str] = []
    _, rest = take_security(
        {
            "ssl.keystore.location": "/k",
            "sasl.mechanism": "PLAIN",
            "ssl.keystore.lokation": "x",
            "ssl.provider": "BC",
            "acks": "1",
        },
        warn=warnings.append,
    )
    text = "\n".join(warnings)
    assert rest == {"acks": "1"}
    assert "ssl.keystore.location has no effect with security.protocol=PLAINTEXT" in text
    assert "sasl.mechanism has no effect with security.protocol=PLAINTEXT" in text
    assert "did you mean ssl.keystore.location?" in text
    assert "ssl.provider has no effect" in text
