"""The embedded server: configuration, ports, mode and jars."""

import socket
import threading

import pytest

from zkbroker.errors import RegistryError
from zkbroker.zookeeper import embedded
from zkbroker.zookeeper.embedded import (
    EmbeddedZooKeeper,
    find_jars,
    free_port,
    server_mode,
)


def test_properties_are_escaped_for_java():
    text = embedded._properties_text(("dataDir=/ä/back\\slash \U0001f418", "a=1"))
    assert text == "dataDir=/\\u00e4/back\\\\slash \\ud83d\\udc18\na=1\n"


def test_configuration_has_port_directory_and_ticks(tmp_path):
    server = EmbeddedZooKeeper(tmp_path, port=1234, tick_ms=700, lines=("server.1=h:1:2",))
    assert {
        f"dataDir={tmp_path.resolve()}",
        "clientPort=1234",
        "clientPortAddress=127.0.0.1",
        "tickTime=700",
        "minSessionTimeout=1400",
    } <= set(server._config())
    assert server._lines == ("server.1=h:1:2",)
    assert server.connect_string == "127.0.0.1:1234"
    assert not server.running
    assert server.pid is None


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (b"Zookeeper version: 3.9\nMode: standalone\nNode count: 5\n", "standalone"),
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"", None),
    ],
)
def test_mode_is_parsed_from_server_response(answer, mode):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(answer)

        served = threading.Thread(target=serve)
        served.start()
        assert server_mode(listening.getsockname()[1]) == mode
        served.join(10)


def test_free_ports_are_distinct():
    # The ports of an ensemble are chosen before its first server listens.
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == len(ports)


def test_port_without_listener_has_no_mode():
    assert server_mode(free_port()) is None


def test_missing_jars_are_named(tmp_path, monkeypatch):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    (tmp_path / "jars").mkdir()
    for prefix in embedded.JARS[:-1]:
        (tmp_path / "jars" / f"{prefix}1.0.jar").touch()
    with pytest.raises(RegistryError, match=r"ships no snappy-java-\*\.jar"):
        find_jars()
    (tmp_path / "jars" / "snappy-java-1.jar").touch()
    assert len(find_jars()) == 5
