"""Tools for versions, data directories, deleted records and elections."""

import json

import confluent_kafka
import pytest

from tests.support.clusters import module_cluster

cluster = module_cluster(brokers=2)


@pytest.fixture(scope="module")
def topic(cluster):
    cluster.create_topic("asked", partitions=2, replication=2)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        producer.produce("asked", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    return "asked"


def test_api_versions_of_every_broker(cluster, tool):
    brokers = cluster.bootstrap_servers
    shown = json.loads(tool("api-versions", "-b", brokers, "--json"))
    assert len(shown) == 2
    assert all(spoken["Produce"] == [0, 7] for spoken in shown.values())
    assert "ElectPreferredLeaders" in tool("api-versions", "-b", brokers)
    genuine = tool("kafka-broker-api-versions.sh", "--bootstrap-server", brokers)
    assert genuine.count(" rack: null) -> (\n\tProduce(0): 0 to 7 [usable: 7],\n\t") == 2
    assert genuine.endswith("\n)\n")


def test_sizes_of_data_directories(cluster, tool, topic):
    brokers = cluster.bootstrap_servers
    shown = json.loads(tool("log-dirs", "-b", brokers, "-t", topic, "--json"))
    replicas = [
        replica
        for broker in shown["brokers"]
        for each in broker["logDirs"]
        for replica in each["partitions"]
    ]
    assert sorted(each["partition"] for each in replicas) == ["asked-0"] * 2 + ["asked-1"] * 2
    assert all(each["size"] > 0 and not each["isFuture"] for each in replicas)
    assert "asked-1" in tool("log-dirs", "-z", cluster.zookeeper, "--partitions")
    lines = tool(
        "kafka-log-dirs", "--bootstrap-server", brokers, "--describe", "--topic-list", topic
    ).splitlines()
    ids = [each["broker"] for each in shown["brokers"]]
    assert lines[0] == "Querying brokers for log directories information"
    assert lines[1] == (
        f"Received log directory information from brokers {','.join(map(str, ids))}"
    )
    genuine = json.loads(lines[2])
    assert genuine == shown
    assert f"no broker {max(ids) + 1} is registered" in tool(
        "log-dirs", "-b", brokers, "--broker", max(ids) + 1, status=1
    )


def test_records_below_an_offset_are_deleted(cluster, tool, topic, tmp_path):
    brokers = cluster.bootstrap_servers
    output = tool("records", "delete", "-b", brokers, "asked-0:4")
    assert output == "asked-0 starts at offset 4\n"
    file = tmp_path / "offsets.json"
    wanted = [
        {"topic": topic, "partition": 0, "offset": 6},
        {"topic": topic, "partition": 1, "offset": -1},
        {"topic": topic, "partition": 7, "offset": 1},
    ]
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    lines = tool(
        "kafka-delete-records", "--bootstrap-server", brokers, "--offset-json-file", file
    ).splitlines()
    assert lines[:4] == [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: asked-0\tlow_watermark: 6",
        "partition: asked-1\tlow_watermark: 10",
    ]
    assert lines[4].startswith("partition: asked-7\terror: there is no asked-7")
    refused = tool("records", "delete", "-b", brokers, "asked-0:11", status=1)
    assert "asked-0: not deleted: OFFSET_OUT_OF_RANGE" in refused
    earliest = tool("offsets", "get", "-b", brokers, "-t", topic, "--time", "earliest")
    assert earliest.split() == ["asked:0:6", "asked:1:10"]


def test_controller_elects_preferred_replicas(cluster, tool, topic):
    brokers = cluster.bootstrap_servers
    output = tool("elect", "-b", brokers, "asked-0")
    assert "preferred replica" in output
    assert "UNKNOWN_TOPIC_OR_PARTITION" in tool("elect", "-b", brokers, "asked-9", status=1)
    shown = tool(
        "kafka-leader-election", "--bootstrap-server", brokers, "--election-type", "PREFERRED",
        "--topic", topic, "--partition", 1,
    )  # fmt: skip
    assert shown in (
        "",
        "Successfully completed leader election (PREFERRED) for partitions asked-1\n",
    )
    refused = tool(
        "kafka-leader-election", "--bootstrap-server", brokers, "--election-type", "unclean",
        "--all-topic-partitions", status=2,
    )  # fmt: skip
    assert "only preferred is known here" in refused
