"""Commands of operators against a real cluster."""

import json
import os

import pytest
from click.testing import CliRunner

from tests.support.process import eventually
from zkbroker.cli.main import cli


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(brokers=2) as started:
        started.create_topic("visits", partitions=2, replication=2)
        yield started


def test_zookeeper_commands_find_it_through_brokers(cluster, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    brokers = cluster.bootstrap_servers
    password = {"ZKBROKER_USER_PASSWORD": "secret"}
    tool("users", "add", "alice", "-b", brokers, **password)
    assert "alice" in tool("users", "list", "-z", cluster.zookeeper)
    assert "alice" in tool("users", "list", "-b", brokers)
    tool("users", "delete", "alice", "--bootstrap-server", brokers)
    plan = json.loads(tool("reassign", "plan", "-b", brokers, "--brokers", "1,2"))
    assert {each["topic"] for each in plan["partitions"]} <= {"visits"}
    assert "2 replicas" in tool("drain", 1, "-b", brokers, "--dry-run", status=1)
    tool("groups", "verify", "-b", brokers)
    moves = tmp_path / "topics.json"
    moves.write_text(json.dumps({"version": 1, "topics": [{"topic": "visits"}]}))
    generate = ("--topics-to-move-json-file", moves, "--broker-list", "1,2", "--generate")
    assert "visits" in tool("kafka-reassign-partitions", "--bootstrap-server", brokers, *generate)
    tool("kafka-preferred-replica-election", "--bootstrap-server", brokers)


def log_of(cluster, broker):
    return cluster.broker(broker).log_path.read_text()


def test_logger_levels_change_on_running_brokers(cluster, tool):
    brokers = cluster.bootstrap_servers
    assert "no levels are set" in tool("log-levels", "-b", brokers)
    output = tool("log-levels", "zkbroker.log:debug", "--broker", 1, "-b", brokers)
    assert output == "broker 1: zkbroker.log logs from DEBUG\n"
    tool("log-levels", "zkbroker.audit:warn", "-z", cluster.zookeeper)
    assert json.loads(tool("log-levels", "-z", cluster.zookeeper, "--json")) == [
        {"broker": "all", "logger": "zkbroker.audit", "level": "WARNING"},
        {"broker": "1", "logger": "zkbroker.log", "level": "DEBUG"},
    ]
    messages = "x" * 500 + "\n"
    produce = ("produce", "-b", brokers, "-t", "rolling", "-X", "batch.num.messages=1")
    cluster.create_topic("rolling", replication=2, config={"segment.bytes": "1024"})
    ran = CliRunner().invoke(cli, produce, input=messages * 20)
    assert ran.exit_code == 0
    eventually(lambda: " DEBUG zkbroker.log.parts log rolled" in log_of(cluster, 1))
    assert " DEBUG " not in log_of(cluster, 2)
    tool("log-levels", "zkbroker.log:default", "--broker", 1, "-b", brokers)
    tool("log-levels", "zkbroker.audit:default", "-b", brokers)
    assert "no levels are set" in tool("log-levels", "-b", brokers)


def test_kafka_configs_changes_logger_levels(cluster, tool):
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "brokers")
    change = ("kafka-configs", *where, "--entity-name", 2, "--alter")
    tool(*change, "--add-config", "logger.levels=[zkbroker.replica:INFO,root:ERROR]")
    shown = tool("kafka-configs", *where, "--entity-name", 2, "--describe")
    assert "logger.levels=zkbroker.replica:INFO,root:ERROR" in shown
    tool(*change, "--delete-config", "logger.levels")
    refused = tool(*change, "--add-config", "logger.levels=zkbroker.replic:INFO", status=1)
    assert "the modules of zkbroker" in refused


def test_server_scripts_start_and_stop_a_broker(cluster, tool, tmp_path):
    logs = {"LOG_DIR": str(tmp_path / "logs")}
    properties = tmp_path / "server.properties"
    properties.write_text(f"zookeeper.connect={cluster.zookeeper}\nport=0\nhost.name=127.0.0.1\n")
    overrides = ("--override", "broker.id=9", "--override", f"log.dirs={tmp_path / 'data'}")
    started = tool("kafka-server-start", "-daemon", properties, *overrides, **logs)
    output = tmp_path / "logs" / "kafkaServer.out"
    try:
        assert f"output={output}" in started
        eventually(lambda: "zkbroker broker ready id=9" in output.read_text())
    finally:
        tool("kafka-server-stop", **logs)
    eventually(lambda: "broker stopped id=9" in output.read_text())
    eventually(lambda: os.listdir(tmp_path / "logs") == ["kafkaServer.out"])
    tool("kafka-server-stop", status=1, **logs)


def test_invalid_setting_is_refused_before_the_daemon_starts(tool, tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("zookeeper.connect=127.0.0.1:1\n")
    override = ("--override", "num.partitions=many")
    logs = {"LOG_DIR": str(tmp_path / "logs")}
    output = tool("kafka-server-start", "-daemon", properties, *override, status=1, **logs)
    assert "num.partitions='many' is not allowed" in output
    assert not (tmp_path / "logs").exists()
