"""A broker with secrets of every kind shows none of them: logs, answers, pages, process lists."""

import base64
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.secure_zookeeper import SecureZooKeeper, jaas_line
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.embedded import free_port

KINDS = (
    "key",
    "keystore",
    "truststore",
    "scram",
    "plain-broker",
    "plain-alice",
    "zookeeper-sasl",
    "zookeeper-digest",
    "zookeeper-keystore",
    "zookeeper-truststore",
    "admin",
    "from-file",
    "from-environment",
    "token-master",
    "encoder",
    "wrong-try",
)
SECRETS = {kind: f"hush-{kind}-4711" for kind in KINDS}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def stores(directory):
    """Keys of the broker, and how it trusts."""
    authority = Authority()
    own = directory / "own"
    own.mkdir()
    return {
        "pem": authority.issue("localhost").pem(directory, "own.pem", SECRETS["key"]),
        "p12": authority.issue("localhost").pkcs12(directory, SECRETS["keystore"]),
        "trusted_p12": authority.trusted_pkcs12(directory, SECRETS["truststore"]),
        "zookeeper_key": authority.issue("broker").pkcs12(own, SECRETS["zookeeper-keystore"]),
        "zookeeper_trusted": authority.trusted_pkcs12(own, SECRETS["zookeeper-truststore"]),
        "trusted": authority.trusted(directory),
        "server": authority.issue("localhost"),
        "authority": authority,
    }


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory, stores):
    folder = tmp_path_factory.mktemp("zk")
    with SecureZooKeeper(
        folder / "data",
        {"kafka": SECRETS["zookeeper-sasl"]},
        keystore=stores["server"].pkcs12(folder, "server-password"),
        truststore=stores["authority"].trusted_pkcs12(folder, "server-password"),
        store_password="server-password",
    ) as started:
        yield started


@pytest.fixture(scope="module")
def broker(directory, stores, zookeeper):
    """A broker's process; yields its ports and everything that it wrote."""
    ports = {"ssl": free_port(), "sasl": free_port(), "admin": free_port()}
    (directory / "admin-users").write_text(
        f"operator:{PasswordHash.of(SECRETS['admin'], iterations=1000)}\n"
    )
    (directory / "secrets.properties").write_text(f"token={SECRETS['from-file']}\n")
    jaas = jaas_line("kafka", SECRETS["zookeeper-sasl"])
    lines = {
        "broker.id": "1",
        "listeners": f"SSL://localhost:{ports['ssl']},SASL_SSL://localhost:{ports['sasl']}",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.keystore.location": stores["pem"],
        "ssl.key.password": SECRETS["key"],
        "listener.name.ssl.ssl.keystore.location": stores["p12"],
        "listener.name.ssl.ssl.keystore.password": SECRETS["keystore"],
        "listener.name.ssl.ssl.key.password": "",
        "ssl.truststore.location": stores["trusted_p12"],
        "ssl.truststore.password": SECRETS["truststore"],
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required username="broker" password="{SECRETS["plain-broker"]}" '
            f'user_broker="{SECRETS["plain-broker"]}" user_alice="{SECRETS["plain-alice"]}" '
            'user_bob="${env:BOB_PASSWORD}" '
            f'user_carol="${{file:{directory}/secrets.properties:token}}";'
        ),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} required username="broker" password="{SECRETS["scram"]}";'
        ),
        "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
        "super.users": "User:broker;User:carol",
        "zookeeper.connect": f"{zookeeper.tls_connect_string}/secrets",
        "zookeeper.sasl.jaas.config": jaas,
        "zookeeper.auth.digest": f"kafka:{SECRETS['zookeeper-digest']}",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": stores["zookeeper_key"],
        "zookeeper.ssl.keystore.password": SECRETS["zookeeper-keystore"],
        "zookeeper.ssl.truststore.location": stores["zookeeper_trusted"],
        "zookeeper.ssl.truststore.password": SECRETS["zookeeper-truststore"],
        "zookeeper.set.acl": "true",
        "delegation.token.master.key": SECRETS["token-master"],
        "password.encoder.secret": SECRETS["encoder"],
        "admin.port": str(ports["admin"]),
        "admin.users.file": str(directory / "admin-users"),
        "log.dirs": str(directory / "data"),
    }
    file = directory / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
    with (directory / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "zkbroker.cli", "broker", str(file), "--log-level", "debug"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"BOB_PASSWORD": SECRETS["from-environment"]},
        )
    ready = process.stdout.readline()
    assert "ready" in ready, (directory / "broker.log").read_text()[-3000:]
    yield ports, process.pid
    process.terminate()
    process.stdout.close()
    assert process.wait(300) == 0


def client(directory, stores, user, password):
    """A property file of a client; returns its path."""
    file = directory / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"ssl.truststore.location={stores['trusted']}\n"
        f"sasl.username={user}\nsasl.password={password}\n"
    )
    return str(file)


def run(*arguments, given=""):
    done = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", *arguments],
        input=given,
        text=True,
        capture_output=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def shown_in(text):
    return sorted(kind for kind, secret in SECRETS.items() if secret in text)


def test_no_output_contains_a_secret(broker, directory, stores):
    ports, pid = broker
    address = f"localhost:{ports['sasl']}"
    carol = client(directory, stores, "carol", SECRETS["from-file"])
    bob = client(directory, stores, "bob", SECRETS["from-environment"])
    mallory = client(directory, stores, "alice", SECRETS["wrong-try"])
    # Each secret is the right one: with these settings things work.
    code, described = run(
        *("configs", "describe", "-b", address, "--broker", "1", "--all"),
        *("--command-config", carol),
    )
    assert code == 0
    assert "zookeeper.auth.digest" in described
    assert "ssl.keystore.location" in described
    code, denied = run("metadata", "-b", address, "-t", "secret-topic", "--command-config", bob)
    code, refused = run("metadata", "-b", address, "--command-config", mallory)
    assert code == 1
    assert "login of the user 'alice'" in refused
    pages = [
        page(ports["admin"], path, login)
        for path in ("/metrics", "/clients", "/")
        for login in (None, ("operator", SECRETS["admin"]), ("operator", SECRETS["wrong-try"]))
    ]
    assert {status for status, _ in pages} == {200, 401, 404}
    commands = Path(f"/proc/{pid}/cmdline").read_text()
    log = (directory / "broker.log").read_text()
    _, helped = run("broker", "--help")
    written = "".join(
        path.read_text(errors="replace")
        for path in (directory / "data").rglob("*")
        if path.is_file()
    )
    for what in (
        described,
        denied,
        refused,
        *(body for _, body in pages),
        commands,
        log,
        helped,
        written,
    ):
        assert shown_in(what) == []
    assert "DEBUG" in log


def test_broker_files_are_readable_by_owner_only(broker, directory, stores):
    ports, _ = broker
    carol = client(directory, stores, "carol", SECRETS["from-file"])
    address = f"localhost:{ports['sasl']}"
    code, output = run(
        "produce", "-t", "t", "-b", address, "--command-config", carol, given="hello\n"
    )
    assert code == 0, output
    found = {path: path.stat().st_mode & 0o777 for path in (directory / "data").rglob("*")}
    assert (directory / "data").stat().st_mode & 0o777 == 0o700
    assert {"00000000000000000000.log", "meta.properties"} <= {path.name for path in found}
    assert {mode for path, mode in found.items() if path.is_dir()} <= {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


def page(port, path, login):
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if login is not None:
        encoded = base64.b64encode(":".join(login).encode()).decode()
        asked.add_header("Authorization", f"Basic {encoded}")
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode() + str(answer.headers)
