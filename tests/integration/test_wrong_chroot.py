"""Commands with a ZooKeeper address without brokers name clusters elsewhere, and create nothing."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.support.clusters import TestCluster
from zkbroker.cli.main import cli
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper


@pytest.fixture(scope="module")
def zookeeper():
    # An answer names five clusters at most, and the shared ZooKeeper holds those of other tests.
    with EmbeddedZooKeeper(heap_mb=64) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(zookeeper):
    with TestCluster(zookeeper=f"{zookeeper.connect_string}/clusters/east") as started:
        started.create_topic("visits")
        yield started


def typed(*arguments, module="zkbroker.cli", stdin=b""):
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        env={k: v for k, v in os.environ.items() if not k.startswith("ZKBROKER_")},
        check=False,
    )


COMMANDS = [
    "topics list",
    "topics create new --partitions 1 --replication-factor 1",
    "topics create new --replica-assignment 1",
    "topics describe",
    "topics delete visits",
    "produce -t visits",
    "consume -t visits -e",
    "consume -G readers visits",
    "kafka-console-consumer --topic visits --zookeeper",
    "groups list",
    "groups describe readers",
    "groups verify",
    "groups delete readers",
    "offsets get -t visits",
    "offsets export",
    "metadata",
    "top --once",
    "elect",
    "drain 1",
    "reassign plan",
    "transactions list",
    "perf produce -t visits",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_names_clusters_elsewhere_and_creates_nothing(cluster, zookeeper, command):
    given = [] if command.endswith("--zookeeper") else ["-z"]
    with ZkSession(zookeeper.connect_string) as session:
        before = {*session.children("/"), *session.children("/clusters")}
        for chroot in ("", "/clusters/wset"):
            address = f"{zookeeper.connect_string}{chroot}"
            ran = CliRunner().invoke(cli, [*command.split(), *given, address], input="lost\n")
            assert isinstance(ran.exception, RegistryError), ran.output
            error = f"no broker is registered under {address if chroot else f'{address}/'}; there"
            assert str(ran.exception).startswith(error)
            assert cluster.zookeeper in str(ran.exception)
            assert ran.output == ""
        assert {*session.children("/"), *session.children("/clusters")} == before


def test_wrong_chroot_is_one_error_line(cluster, zookeeper):
    ran = typed("topics", "list", "-z", zookeeper.connect_string)
    assert (ran.returncode, ran.stdout) == (1, b"")
    error = ran.stderr.decode()
    assert error.startswith("error: no broker is registered under")
    assert error.count("\n") == 1


def test_loader_names_clusters_elsewhere_and_creates_nothing(cluster, zookeeper, tmp_path):
    pytest.importorskip("pyspark")
    output = ("--output", tmp_path / "lake")
    where = ("load", "--topic", "visits", "--zookeeper", cluster.zookeeper)
    first = typed(*where, *output, module="tests.support.inline_load")
    assert first.returncode == 0, first.stderr
    wrong = ("--zookeeper", f"{zookeeper.connect_string}/clusters/wset")
    for command in ("load --topic visits", "status", "audit"):
        ran = typed(*command.split(), *wrong, *output, module="spark_loader.cli")
        assert ran.returncode == 1, ran.stdout
        assert cluster.zookeeper in ran.stderr.decode()
    with ZkSession(zookeeper.connect_string) as session:
        assert session.exists("/clusters/wset") is None


def test_doctor_finds_the_wrong_chroot(cluster, zookeeper, tmp_path):
    where = ("doctor", "--data", tmp_path, "--json", "--zookeeper")
    right = CliRunner().invoke(cli, [*map(str, where), cluster.zookeeper])
    assert {each["check"]: each["ok"] for each in json.loads(right.stdout)}["ZooKeeper"]
    chroot = f"{zookeeper.connect_string}/clusters/wset"
    wrong = CliRunner().invoke(cli, [*map(str, where), chroot])
    found = {each["check"]: each for each in json.loads(wrong.stdout)}
    assert (wrong.exit_code, found["ZooKeeper"]["ok"], found["clock"]["ok"]) == (1, False, True)
    assert cluster.zookeeper in found["ZooKeeper"]["found"]
    with ZkSession(zookeeper.connect_string) as session:
        assert session.exists("/clusters/wset") is None


def test_stopped_cluster_is_listed_with_warning(cluster, zk, chroot):
    create_topic(zk, "old", {0: [1]})
    zk.ensure_path(paths.BROKER_IDS)
    ran = CliRunner().invoke(cli, ["topics", "list", "-z", chroot])
    assert (ran.exit_code, ran.stdout) == (0, "old\n")
    warning = f"warning: no broker is registered under {chroot}; there are some under"
    assert ran.stderr.startswith(warning)
    assert "start its brokers" in ran.stderr
    refused = CliRunner().invoke(cli, ["metadata", "-z", chroot])
    assert (refused.exit_code, refused.stdout) == (1, "")
