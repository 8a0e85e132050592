"""Ten mistakes of newcomers: each gives one line, the cause and the cure, and no traceback."""

import os
import subprocess
import sys

import pytest

from tests.support.clusters import module_cluster

cluster = module_cluster(properties={"auto.create.topics.enable": "false"})


@pytest.fixture
def mistake():
    def run(*arguments, environment=None, limit=None):
        command = [sys.executable, "-m", "zkbroker.cli", *map(str, arguments)]
        if limit is not None:
            # A full disk, as one process sees it: no file may grow beyond this many blocks.
            command = ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *command]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | (environment or {}),
            check=False,
        )
        assert ran.returncode == 1, ran.stderr
        assert "Traceback" not in ran.stderr
        errors = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, ran.stderr
        return errors[0]

    return run


@pytest.fixture
def properties(cluster, tmp_path):
    def write(**changes):
        settings = {
            "broker.id": 5,
            "zookeeper.connect": cluster.zookeeper,
            "log.dirs": tmp_path / "data",
            "port": 0,
            "host.name": "127.0.0.1",
        } | {key.replace("_", "."): value for key, value in changes.items()}
        path = tmp_path / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    return write


def test_wrong_port(mistake):
    error = mistake("consume", "-b", "127.0.0.1:1", "-t", "x")
    assert "127.0.0.1:1" in error
    assert "correct the addresses" in error


def test_no_zookeeper(mistake, properties, tool):
    for error in (
        tool("topics", "list", "-z", "127.0.0.1:1", status=1),
        mistake("broker", properties(zookeeper_connect="127.0.0.1:1")),
    ):
        assert "no ZooKeeper answered at 127.0.0.1:1" in error
        assert "start one there, or correct zookeeper.connect" in error


def test_port_in_use(mistake, properties, cluster):
    port = cluster.broker(1).address[1]
    error = mistake("broker", properties(port=port))
    assert f"127.0.0.1:{port}: Address already in use" in error
    assert "set another one" in error


def test_unusable_data_directory(mistake, properties, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    error = mistake("broker", properties(log_dirs=tmp_path / "file"))
    assert str(tmp_path / "file") in error
    assert "or change log.dirs" in error


def test_invalid_property(mistake, properties):
    error = mistake("broker", properties(num_partitions="many"))
    assert "num.partitions='many' is not allowed: give a whole number" in error


def test_unknown_topic(tool, cluster):
    error = tool("consume", "-b", cluster.bootstrap_servers, "-t", "nowhere", "-e", status=1)
    assert "topic nowhere does not exist" in error


def test_no_java(mistake, tmp_path):
    error = mistake(
        "zookeeper", "--port", 0, "--data", tmp_path, environment={"PATH": "/", "JAVA_HOME": ""}
    )
    assert "need Java 17" in error
    assert "apt-get install openjdk-17-jre-headless" in error


@pytest.mark.parametrize("command", [("up",), ("zookeeper", "--port", 0)])
def test_unwritable_data_option(mistake, tmp_path, command):
    (tmp_path / "file").touch()
    error = mistake(*command, "--data", tmp_path / "file" / "data")
    assert f"{tmp_path}/file/data: Not a directory: choose another place" in error


def test_data_directory_of_other_cluster(mistake, properties, tmp_path):
    (tmp_path / "data").mkdir()
    meta = "version=0\nbroker.id=5\ncluster.id=another\n"
    (tmp_path / "data" / "meta.properties").write_text(meta)
    error = mistake("broker", properties())
    assert "belong to cluster another" in error
    assert "check zookeeper.connect, or give other log.dirs" in error


def test_broker_id_in_use(mistake, properties):
    error = mistake("broker", properties(broker_id=1))
    assert "broker id 1 is in use" in error
    assert "another broker.id" in error


def test_full_disk(mistake, properties):
    error = mistake("broker", properties(), limit=0)
    assert "File too large" in error
    assert "or change log.dirs" in error


def test_data_directory_in_use(mistake, properties, cluster):
    error = mistake("broker", properties(broker_id=1, log_dirs=cluster.broker(1).data_directory))
    assert "in use by another broker: stop it" in error


@pytest.mark.parametrize(
    ("shell", "status"),
    [
        ("zkbroker --help > /dev/full", 1),
        ("zkbroker doctor --json > /dev/full", 1),
        ("zkbroker doctor > /dev/full", 1),
        ("zkbroker --help >&-", 0),
        ("zkbroker produce -b 127.0.0.1:1 -t t <&-", 1),
    ],
)
def test_unwritable_output_is_one_error_line(shell, status):
    command = shell.replace("zkbroker", f"{sys.executable} -m zkbroker.cli", 1)
    ran = subprocess.run(
        ["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert ran.returncode == status
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count("error: ") == status


@pytest.mark.parametrize(
    "command", ["consume -t lines -e -o beginning", "metadata", "topics describe", "consume --help"]
)
def test_closed_output_pipe_is_no_error(cluster, command):
    environment = os.environ | {
        "ZKBROKER_BOOTSTRAP": cluster.bootstrap_servers,
        "ZKBROKER_ZOOKEEPER": cluster.zookeeper,
        "ZKBROKER": f"{sys.executable} -m zkbroker.cli",
    }
    if "lines" in command:
        cluster.create_topic("lines")
        published = subprocess.run(
            ["bash", "-c", "seq 100000 | $ZKBROKER produce -t lines"], env=environment, check=False
        )
        assert published.returncode == 0
    # The reader goes before the first line.
    ran = subprocess.run(
        ["bash", "-c", f"$ZKBROKER {command} | (exec <&-); exit ${{PIPESTATUS[0]}}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_misspelt_broker_setting(mistake, tmp_path):
    error = mistake("up", "--data", tmp_path / "data", "--set", "num.partitons=4")
    assert error == "error: num.partitons is no setting of a broker; did you mean num.partitions?"
    assert not (tmp_path / "data").exists()
