"""`zkbroker top`, `doctor` and `clients` against a real cluster."""

import json

import pytest
from click.testing import CliRunner

from tests.support.consoles import open_producer
from zkbroker.admin.coordinator_groups import set_offsets
from zkbroker.cli.connection import open_cluster
from zkbroker.cli.main import cli
from zkbroker.errors import ZkbrokerError
from zkbroker.producer import KeyedMessage
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.zookeeper import ZkSession


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster() as started:
        topic = started.create_topic("visits", partitions=2)
        with open_producer(started, **{"client.id": "old-web-server"}) as producer:
            producer.send([KeyedMessage(topic, b"x", partition=n % 2) for n in range(10)])
        with ZkSession(started.zookeeper) as session:
            commit_offset(session, "counters", topic, 0, 2)
        with open_cluster(started.bootstrap_servers, None) as brokers:
            set_offsets(brokers, "modern", {(topic, 1): 4})
        yield started


def run(*arguments):
    ran = CliRunner(env={"COLUMNS": "140"}).invoke(cli, arguments, catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.output


def top(*where):
    """Return the text, and the cells of each row."""
    shown = run("top", *where, "--once", "--interval", "0.1")
    return shown, [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]


def test_top_shows_brokers_topics_and_lag(cluster):
    _, rows = top("-z", cluster.zookeeper)
    (of_broker,) = [row for row in rows if row[:2] == ["1", cluster.bootstrap_servers]]
    assert of_broker[3] == "0"
    assert ["visits", "2", "10", "0"] in rows
    unread = "5 messages in 1 partition without a commit"
    assert ["counters", "zookeeper", "visits", "0", "0", "3", unread] in rows
    assert ["modern", "coordinator", "visits", "0", "0", "1", unread] in rows


def test_top_without_zookeeper_notes_the_missing_groups(cluster):
    shown, rows = top("-b", cluster.bootstrap_servers)
    assert ["visits", "2", "10", "0"] in rows
    assert any(row[:3] == ["modern", "coordinator", "visits"] for row in rows)
    assert "counters" not in shown
    assert "groups that keep their offsets in ZooKeeper are not shown: give -z" in shown


def test_doctor_checks_brokers(cluster, tmp_path):
    brokers = cluster.bootstrap_servers
    found = json.loads(run("doctor", "-b", brokers, "--data", str(tmp_path), "--json"))
    checks = {each["check"]: each for each in found}
    assert checks["broker 1"]["found"] == f"{brokers} answers"
    assert "the controller is 1" in checks["brokers"]["found"]


def test_clients_are_listed_from_a_data_directory(cluster):
    directory = cluster.broker(1).data_directory
    cluster.broker(1).stop()
    try:
        assert "old-web-server" in run("clients", str(directory))
        listed = json.loads(run("clients", str(directory), "--json"))
        (client,) = [each for each in listed if each["client_id"] == "old-web-server"]
        assert {"PRODUCE", "METADATA"} <= {each["api"] for each in client["requests"]}
        assert json.loads(run("clients", str(directory), "--refused", "--json")) == []
    finally:
        cluster.broker(1).start()


def test_source_without_client_counts_is_refused(tmp_path):
    with pytest.raises(ZkbrokerError, match="no broker has run on it"):
        run("clients", str(tmp_path))
    with pytest.raises(ZkbrokerError, match=r"answer: \[Errno.*admin\.port or its data directory"):
        run("clients", "127.0.0.1:1")
