"""`zkbroker health` and the probes of the admin port, through a broker's death and return."""

import json
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from tests.support.process import eventually
from zkbroker.cli.main import cli
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.embedded import free_port


def health(*where):
    ran = CliRunner().invoke(cli, ["health", *where])
    return ran.exit_code, ran.stdout


def problems(*where):
    """Return the partitions of each problem, by its name."""
    found = json.loads(health(*where, "--json")[1])["problems"]
    return {each["problem"]: each["partitions"] for each in found}


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(brokers=2) as started:
        started.create_topic("visits", partitions=2, replication=2)
        started.create_topic("strict", replication=2, config={"min.insync.replicas": "2"})
        yield started


def test_health_names_missing_broker_and_its_partitions(cluster):
    brokers, zookeeper = ("-b", cluster.bootstrap_servers), ("-z", cluster.zookeeper)
    for where in (brokers, zookeeper):
        eventually(lambda where=where: health(*where)[0] == 0)
        status, output = health(*where)
        assert output.startswith("healthy: brokers 1, 2, controller ")
        assert json.loads(health(*where, "--json")[1])["healthy"] is True
    few = [{"topic": "strict", "partition": 0}]
    cluster.broker(2).stop()
    try:
        for where in (brokers, zookeeper):
            eventually(lambda where=where: problems(*where).get("under_min_isr_partitions") == few)
            status, output = health(*where)
            assert status == 1
            assert "broker 2 is not registered and has replicas: " in output
            assert "partitions with replicas that are not in sync: " in output
            assert "strict-0" in output.partition("refuse")[2]
            assert len(problems(*where)["broker_missing"]) >= 3
    finally:
        cluster.broker(2).start()
    for where in (brokers, zookeeper):
        eventually(lambda where=where: health(*where)[0] == 0)


def test_unreachable_cluster_is_unhealthy():
    status, output = health("-b", "127.0.0.1:1", "--json")
    (problem,) = json.loads(output)["problems"]
    assert (status, problem["problem"]) == (1, "unreachable")
    assert "127.0.0.1:1" in problem["text"]


def test_probes_of_the_admin_port(local_cluster, tmp_path):
    users = tmp_path / "users"
    users.write_text(f"alice:{PasswordHash.of('pw', iterations=10)}\n")
    port = free_port()
    properties = {"admin.port": str(port), "admin.users.file": str(users)}
    with local_cluster(properties=properties):
        for path, word in (("/health", "alive\n"), ("/ready", "ready\n")):
            url = f"http://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=300) as answer:
                assert (answer.status, answer.read().decode()) == (200, word)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300)
