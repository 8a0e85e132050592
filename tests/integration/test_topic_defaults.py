"""Defaults of a new topic, and its description, on three real brokers."""

import json

import pytest
from click.testing import CliRunner

from tests.support.clusters import module_cluster
from tests.support.zookeeper import until
from zkbroker.cli.main import cli
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

cluster = module_cluster(3, replication=3, properties={"num.partitions": "2"})


@pytest.fixture
def run(cluster):
    def invoke(*arguments):
        ran = CliRunner(env={"ZKBROKER_ZOOKEEPER": cluster.zookeeper, "COLUMNS": "120"}).invoke(
            cli, arguments, catch_exceptions=False
        )
        assert ran.exit_code == 0, ran.output
        return ran

    return invoke


def test_topic_uses_broker_defaults_and_accepts_acks_all(cluster, run):
    created = run("topics", "create", "visits")
    assert (created.stdout, created.stderr) == ('Created topic "visits".\n', "")
    assert "PartitionCount:2\tReplicationFactor:3" in run("topics", "describe", "visits").stdout
    cluster_of = ProducerConfig.from_properties(
        {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "-1"}
    )
    with Producer(cluster_of) as producer:
        producer.send([KeyedMessage("visits", b"x", partition=n) for n in range(2)])


def test_topic_below_min_isr_gets_warning(run):
    created = run("topics", "create", "thin", "--replication-factor", "1")
    assert created.stderr == (
        "warning: partitions of thin have 1 replica and min.insync.replicas is 2: every message "
        "with acks=all is refused; give the topic 2 replicas, or --config min.insync.replicas=1\n"
    )
    own = ("--replication-factor", "1", "--config", "min.insync.replicas=1")
    assert run("topics", "create", "own", *own).stderr == ""
    changed = run("topics", "alter", "own", "--config", "min.insync.replicas=2")
    assert "partitions of own have 1 replica and min.insync.replicas is 2" in changed.stderr
    assert run("topics", "alter", "own", "--config", "retention.ms=1000").stderr == ""


def test_metadata_command_hides_internal_topics(cluster, run):
    run("topics", "create", "shown")
    run("offsets", "reset", "g", "earliest", "-t", "shown", "--kept-by", "coordinator")
    # Each time another broker may be asked, which may not have heard of the topics yet.
    hidden = "50 partitions of the brokers' own topics are not shown"
    until(lambda: hidden in run("metadata").stderr)
    assert "__consumer_offsets" not in run("metadata").stdout
    until(lambda: run("metadata", "--internal").stdout.count("__consumer_offsets") == 50)

    def replicas(kind):
        found = json.loads(run("metadata", "-t", "shown", "--json").stdout)["partitions"]
        return [sorted(each[kind]) for each in found]

    until(lambda: replicas("replicas") == replicas("isr") == [[1, 2, 3]] * 2)


def test_description_names_missing_brokers(cluster, run):
    run("topics", "create", "lonely", "--replica-assignment", "3")
    until(lambda: "Leader: 3" in run("topics", "describe", "lonely").stdout)
    cluster.broker(3).kill()
    try:
        line = "Leader: none\tReplicas: 3\tIsr: 3\tMissing: 3\n"
        until(lambda: run("topics", "describe", "lonely").stdout.endswith(line))
    finally:
        cluster.broker(3).start()
