"""Logins at ZooKeeper from properties: valid ones, and refused ones without their secrets."""

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.secret import Secret
from zkbroker.config.security import ClientSecurity
from zkbroker.config.tls import TlsSettings
from zkbroker.config.zookeeper_security import (
    KEYS,
    UNPROTECTED,
    ZooKeeperLogin,
    take_zookeeper_security,
)
from zkbroker.errors import ConfigError

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LINE = f'{MODULE} required username="kafka" password="pa ss";'
LOGIN = ZooKeeperLogin("kafka", Secret("pa ss"))


def security(**given):
    return take_zookeeper_security({key.replace("_", "."): text for key, text in given.items()})[0]


def test_default_is_unprotected():
    given = {"zookeeper.connect": "h:1", "group.id": "g"}
    assert take_zookeeper_security(given) == (UNPROTECTED, given)
    assert UNPROTECTED.logins == ""


def test_zookeeper_settings_are_separated_from_others():
    given = {"zookeeper.sasl.jaas.config": LINE, "zookeeper.set.acl": "TRUE", "group.id": "g"}
    taken, rest = take_zookeeper_security(given)
    assert (taken.sasl, taken.digest, taken.set_acl) == (LOGIN, None, True)
    assert rest == {"group.id": "g"}
    assert taken.logins == "kafka (SASL)"
    assert "pa ss" not in repr(taken)


def test_digest_password_may_contain_colons():
    taken = security(zookeeper_auth_digest=" kafka:a:b ")
    assert taken.digest == ZooKeeperLogin("kafka", Secret("a:b"))
    assert taken.logins == "kafka (digest)"


def test_jaas_file_section_is_used_without_jaas_line(tmp_path):
    file = tmp_path / "jaas.conf"
    other = LINE.replace("kafka", "other")
    file.write_text(f"Client {{ {LINE} }};\nZk {{ {other} }};\nKafkaServer {{ {LINE} }};\n")
    path = str(file)
    jaas = {"java_security_auth_login_config": path}
    assert security(**jaas).sasl == LOGIN
    assert security(**jaas, zookeeper_sasl_clientconfig="Zk").sasl.user == "other"
    assert security(**jaas, zookeeper_sasl_clientconfig="None").sasl is None
    assert security(**jaas, zookeeper_sasl_client="false").sasl is None
    assert security(**jaas, zookeeper_sasl_jaas_config=other).sasl.user == "other"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zookeeper_auth_digest": "secretpw"}, "zookeeper.auth.digest is not user:password"),
        ({"zookeeper_auth_digest": ":secretpw"}, "zookeeper.auth.digest is not user:password"),
        ({"zookeeper_set_acl": "true"}, "zookeeper.set.acl=true needs a login at ZooKeeper"),
        (
            {"zookeeper_sasl_jaas_config": 'a.PlainLoginModule required password="secretpw";'},
            "names a.PlainLoginModule, which is no login at ZooKeeper",
        ),
        (
            {"zookeeper_sasl_jaas_config": 'com.sun.Krb5LoginModule required keyTab="secretpw";'},
            "asks for Kerberos, which is not supported: use DIGEST-MD5",
        ),
        ({"zookeeper_sasl_jaas_config": f"{MODULE} required user=secretpw;"}, "gives a username"),
        ({"zookeeper_sasl_jaas_config": f"{MODULE} required username=k;"}, "gives a password no"),
        (
            {"zookeeper_sasl_jaas_config": f'{MODULE} required username=k password="secretpwé";'},
            "DIGEST-MD5 knows ASCII letters only",
        ),
        ({"java_security_auth_login_config": "/nowhere/jaas"}, "cannot read the JAAS file"),
    ],
)
def test_invalid_login_is_refused_without_showing_it(given, message):
    with pytest.raises(ConfigError) as refused:
        security(**given)
    assert message in str(refused.value)
    assert "secretpw" not in str(refused.value)


def test_section_with_two_modules_is_refused(tmp_path):
    file = tmp_path / "jaas.conf"
    file.write_text(f"Client {{ {LINE} {LINE} }};")
    with pytest.raises(ConfigError, match="must hold one login module"):
        security(java_security_auth_login_config=str(file))


def test_broker_config_checks_zookeeper_login():
    given = {"zookeeper.connect": "h:1", "zookeeper.auth.digest": "kafka:pw"}
    config = BrokerConfig.from_properties({**given, "zookeeper.set.acl": "true"}, warn=pytest.fail)
    assert config.zookeeper_security().set_acl
    assert "pw" not in repr(config)
    with pytest.raises(ConfigError, match="needs a login"):
        BrokerConfig.from_properties({"zookeeper.connect": "h:1", "zookeeper.set.acl": "true"})
    assert "zookeeper.set.acl" in KEYS


def test_tls_settings_are_read(tmp_path):
    given = {
        "zookeeper_ssl_client_enable": "true",
        "zookeeper_ssl_keystore_location": "/k.pem",
        "zookeeper_ssl_keystore_password": "kp",
        "zookeeper_ssl_truststore_location": "/t.p12",
        "zookeeper_ssl_truststore_password": "tp",
        "zookeeper_ssl_endpoint_identification_algorithm": "",
    }
    taken = security(**given, zookeeper_set_acl="true")
    assert taken.tls == TlsSettings(
        keystore_location="/k.pem",
        keystore_password=Secret("kp"),
        key_password=Secret("kp"),
        truststore_location="/t.p12",
        truststore_password=Secret("tp"),
        host_check="",
    )
    assert taken.logins == "a certificate (TLS)"
    given["zookeeper_ssl_client_enable"] = "false"
    with pytest.raises(ConfigError, match="would be connected to without TLS: set zookeeper"):
        security(**given)


def test_key_without_effect_is_warned_about(caplog):
    take_zookeeper_security({"zookeeper.clientCnxnSocket": "org.x.ClientCnxnSocketNetty"})
    assert "zookeeper.clientCnxnSocket has no effect: zookeeper.ssl.client.enable" in caplog.text


def test_client_security_contains_zookeeper_login():
    client = ClientSecurity.from_properties({"zookeeper.auth.digest": "kafka:pw"})
    assert client.zookeeper.digest.user == "kafka"
    assert client.protocol == "PLAINTEXT"
