"""Misconfigurations of a secure broker: the start is refused with the line to change."""

import subprocess
import sys

import pytest

from zkbroker.broker.authorization import make_authorizer
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2hunter2"

TLS = {"listeners": "SSL://:9093", "inter.broker.listener.name": "SSL"}
KEY = {"ssl.keystore.location": "/etc/zkbroker/broker.pem"}
SASL = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
}
LINE = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"
LOGIN = {LINE: f'{SCRAM} required username="broker" password="{SECRET}";'}
AUTHORIZER = {"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer"}

MISTAKES = {
    "a mechanism without its line": (SASL, f"set {LINE}="),
    "PLAIN without users": (
        {
            **SASL,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{PLAIN} required username="broker" password="{SECRET}";'
            ),
        },
        "names no user",
    ),
    "a line for another mechanism": (
        {**SASL, LINE: f'{PLAIN} required user_alice="{SECRET}";'},
        "is for another mechanism",
    ),
    "a line without its semicolon": (
        {**SASL, LINE: f'{SCRAM} required username="broker" password="{SECRET}"'},
        "';'",
    ),
    "brokers without a login among themselves": (
        {**SASL, LINE: f"{SCRAM} required;"},
        f"add username and password to {LINE}",
    ),
    "an inter-broker mechanism that is not enabled": (
        {**SASL, **LOGIN, "sasl.mechanism.inter.broker.protocol": "PLAIN"},
        "sasl.mechanism.inter.broker.protocol=PLAIN is not enabled",
    ),
    "super users with commas": (
        {"super.users": "User:a,User:b", **AUTHORIZER},
        "set super.users=User:a;User:b",
    ),
    "a super user without a type": ({"super.users": "admin", **AUTHORIZER}, "super.users"),
    "an unknown authorizer": (
        {"authorizer.class.name": "org.example.MyAuthorizer"},
        "authorizer.class.name",
    ),
    "a login at ZooKeeper without a colon": (
        {"zookeeper.auth.digest": SECRET},
        "zookeeper.auth.digest is not user:password",
    ),
    "a login at ZooKeeper by Kafka's module": (
        {"zookeeper.sasl.jaas.config": f'{PLAIN} required username=a password="{SECRET}";'},
        "is no login at ZooKeeper",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_refused_with_line_to_change(mistake):
    given, message = MISTAKES[mistake]
    with pytest.raises(ConfigError) as refused:
        make_authorizer(
            BrokerConfig.from_properties(
                {"zookeeper.connect": "127.0.0.1:1", **given}, warn=lambda _: None
            )
        )
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


def test_settings_without_mistakes_are_accepted():
    supers = {"super.users": "User:a;User:CN=b,O=c", **AUTHORIZER}
    for given in ({**TLS, **KEY}, {**SASL, **LOGIN}, supers):
        make_authorizer(
            BrokerConfig.from_properties(
                {"zookeeper.connect": "127.0.0.1:1", **given}, warn=lambda _: None
            )
        )


FROM_FILES = {
    "a missing key file": ({**TLS, **KEY}, "ssl.keystore.location=/etc/zkbroker/broker"),
    "a mechanism without its line": (SASL, f"set {LINE}="),
    "a missing secret": (
        {"zookeeper.auth.digest": "kafka:${env:NO_SUCH_SECRET}"},
        "the environment has no variable NO_SUCH_SECRET: set it",
    ),
    "admin page users without password hashes": (
        {"admin.port": "0", "admin.users.file": "USERS"},
        "line 1 is not user:$pbkdf2-sha256$...: make it with zkbroker hash-password USER",
    ),
}


@pytest.mark.parametrize("mistake", FROM_FILES)
def test_command_reports_mistake_in_one_line(mistake, tmp_path):
    given, message = FROM_FILES[mistake]
    users = tmp_path / "users"
    users.write_text(f"alice:{SECRET}\n")
    lines = {
        "zookeeper.connect": "127.0.0.1:1",
        "zookeeper.connection.timeout.ms": "1000",
        "log.dirs": str(tmp_path / "data"),
        **given,
    }
    file = tmp_path / "server.properties"
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    file.write_text(text.replace("USERS", str(users)))
    done = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "broker", str(file), "--log-level", "error"],
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert SECRET not in line
