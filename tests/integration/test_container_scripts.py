"""The scripts of the container's image, beside a broker as the image runs it."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import MakeCluster
from tests.support.markdown import ROOT
from tests.support.security_ways import Credentials
from zkbroker.config.properties import load_properties
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper.embedded import free_port

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CERTIFIED://127.0.0.1:0"
MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,CERTIFIED:SSL"


@pytest.fixture(scope="module")
def cluster(
    local_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    credentials = Credentials(tmp_path_factory.mktemp("tls"))
    properties = {
        "listeners": LISTENERS,
        "listener.security.protocol.map": MAP,
        "ssl.keystore.location": credentials.broker,
        "ssl.truststore.location": credentials.trusted,
        "listener.name.certified.ssl.client.auth": "required",
    }
    with local_cluster(1, properties=properties) as running:
        yield running


def check(directory: Path, port: str, listeners: str) -> tuple[int, str]:
    (directory / "server.properties").write_text(
        f"listeners = PLAINTEXT://:1\nlistener.security.protocol.map={MAP}\nlisteners={listeners}\n"
    )
    done = subprocess.run(
        [sys.executable, ROOT / "docker" / "healthcheck.py"],
        env={"TMPDIR": str(directory), "ZKBROKER_PORT": port},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL", "CERTIFIED"])
def test_healthcheck_passes_for_each_listener(
    listener: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    port = cluster.bootstrap(listener).rpartition(":")[2]
    listeners = f"OTHER://0.0.0.0:1,{listener}://0.0.0.0:{port}"
    assert check(tmp_path, port, listeners) == (0, "")


def test_healthcheck_fails_without_broker(tmp_path: Path) -> None:
    port = str(free_port())
    status, message = check(tmp_path, port, f"SSL://0.0.0.0:{port}")
    assert status == 1
    assert message.startswith("not healthy: ")


def test_environment_variables_become_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: ran.append(arguments))
    monkeypatch.setattr(sys, "argv", ["entrypoint.py"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in {
        "BROKER_ID": "7",
        "LISTENER_NAME_SASL___SSL_SCRAM__SHA__512_SASL_JAAS_CONFIG": 'required username="b";',
        "SSL_KEYSTORE_KEY": "-----BEGIN\nline\n",
        "SSL_PRINCIPAL_MAPPING_RULES": r"RULE:^CN=(\w+)$/$1/",
        "COMMAND_CONFIG": "/client.properties",
        "USER_PASSWORD": "secret",
    }.items():
        monkeypatch.setenv(f"ZKBROKER_{name}", value)
    runpy.run_path(str(ROOT / "docker" / "entrypoint.py"))
    path = tmp_path / "server.properties"
    assert [arguments[1:] for arguments in ran] == [["broker", str(path)]]
    assert path.stat().st_mode & 0o777 == 0o600
    properties = load_properties(path)
    assert properties["broker.id"] == "7"
    key = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"
    assert properties[key] == 'required username="b";'
    assert properties["ssl.keystore.key"] == "-----BEGIN\nline\n"
    assert properties["ssl.principal.mapping.rules"] == r"RULE:^CN=(\w+)$/$1/"
    assert not {"command.config", "user.password"} & properties.keys()
