"""Misconfigurations of a secure broker: the start is refused with the line to change."""

import subprocess
import sys

import pytest

from zkbroker.broker import BrokerNode
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter2hunter2"

TLS = {"listeners": "SSL://:9093", "inter.broker.listener.name": "SSL"}
SASL = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
}
LINE = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"


@pytest.fixture
def common(tmp_path):
    return {
        "zookeeper.connect": "127.0.0.1:1",
        "zookeeper.connection.timeout.ms": "1000",
        "log.dirs": str(tmp_path / "data"),
    }


MISTAKES = {
    "a mechanism without its line": (SASL, f"set {LINE}="),
    "a line without its semicolon": (
        {**SASL, LINE: f'{SCRAM} required username="broker" password="{SECRET}"'},
        "';'",
    ),
    "brokers without a login among themselves": (
        {**SASL, LINE: f"{SCRAM} required;"},
        f"add username and password to {LINE}",
    ),
    "admin page users without password hashes": (
        {"admin.port": "0", "admin.users.file": "USERS"},
        "line 1 is not user:$pbkdf2-sha256$...: make it with zkbroker hash-password USER",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_refused_with_line_to_change(mistake, common, tmp_path):
    given, message = MISTAKES[mistake]
    users = tmp_path / "users"
    users.write_text(f"alice:{SECRET}\n")
    properties = {key: value.replace("USERS", str(users)) for key, value in given.items()}
    with pytest.raises(ConfigError) as refused:
        BrokerNode(BrokerConfig.from_properties(common | properties)).start()
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {**TLS, "ssl.keystore.location": "/etc/zkbroker/broker.pem"},
            "ssl.keystore.location=/etc/zkbroker/broker",
        ),
        (
            {"zookeeper.auth.digest": "kafka:${env:NO_SUCH_SECRET}"},
            "the environment has no variable NO_SUCH_SECRET: set it",
        ),
    ],
    ids=["a missing key file", "a missing secret"],
)
def test_command_reports_mistake_in_one_line(given, message, common, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in (common | given).items()))
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
