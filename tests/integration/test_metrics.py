"""The metrics of a known workload are exact, under the names that operators know."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.clusters import TestCluster
from tests.support.markdown import ROOT
from tests.support.process import eventually
from tests.support.proxy import Proxy
from zkbroker.admin.coordinator_groups import set_offsets
from zkbroker.cli.connection import open_cluster
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import Consumer, FetchRequest, GroupConsumer, SimpleConsumer
from zkbroker.measures import Histogram
from zkbroker.monitoring import metric_name
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.producer.errors import QueueFull
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import free_port


@pytest.fixture(scope="module")
def proxy(zookeeper):
    with Proxy(zookeeper.port) as between:
        yield between


@pytest.fixture(scope="module")
def page(proxy):
    port = free_port()
    connect = f"127.0.0.1:{proxy.port}/metrics"
    with TestCluster(zookeeper=connect, properties={"admin.port": str(port)}) as cluster:
        cluster.create_topic("first")
        yield cluster, port


def read(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as answer:
        return answer.read().decode()


def samples(port):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(read(port, "/metrics"))
        for sample in family.samples
    }


def test_controller_metrics_are_exposed(page):
    _, port = page
    eventually(lambda: samples(port)["zkbroker_controller_global_topic_count", ()] >= 1)
    found = samples(port)
    assert found["zkbroker_controller_active_controller_count", ()] == 1
    assert found["zkbroker_controller_offline_partitions_count", ()] == 0
    assert found["zkbroker_controller_preferred_replica_imbalance_count", ()] == 0
    assert found["zkbroker_controller_topics_to_delete_count", ()] == 0
    assert found["zkbroker_controller_unclean_leader_elections_total", ()] == 0
    assert found["zkbroker_controller_leader_elections_total", ()] == 0

    def queued():
        return {
            value
            for (name, _), value in samples(port).items()
            if name.startswith("zkbroker_controller_") and name.endswith("_queue_size")
        }

    # Its last requests may have no answer yet.
    eventually(lambda: queued() == {0})


def test_messages_bytes_and_requests_are_counted_exactly(page):
    cluster, port = page
    topic = cluster.create_topic(partitions=1)
    config = ProducerConfig.from_properties(
        {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "1"}
    )
    with Producer(config) as producer:
        for number in range(7):
            producer.send([KeyedMessage(topic, b"x" * 100) for _ in range(number + 1)])
    before = samples(port)
    where = (("topic", topic),)
    assert before["zkbroker_messages_in_total", where] == 28
    assert before["zkbroker_total_produce_requests_total", where] == 7
    assert before["zkbroker_failed_produce_requests_total", where] == 0
    at = (("partition", "0"), ("topic", topic))
    assert before["zkbroker_log_end_offset", at] == 28
    assert before["zkbroker_bytes_in_total", where] == before["zkbroker_log_size_bytes", at]
    host, broker_port = cluster.broker(1).address
    with SimpleConsumer(host, broker_port) as consumer:
        fetched = consumer.fetch(FetchRequest(topic, 0, 0))
        assert len(list(fetched)) == 28
    after = samples(port)
    assert after["zkbroker_bytes_out_total", where] == before["zkbroker_bytes_in_total", where]
    fetches = (("request", "fetch"),)
    assert (
        after["zkbroker_requests_total", fetches]
        == before.get(("zkbroker_requests_total", fetches), 0) + 1
    )
    count = after["zkbroker_request_total_seconds_count", fetches]
    assert after["zkbroker_request_total_seconds_bucket", (("le", "+Inf"), *fetches)] == count


def test_clients_are_listed_by_api_and_version(page):
    cluster, port = page
    host, broker_port = cluster.broker(1).address
    with BrokerConnection(
        get_runtime("threads"), host, broker_port, client_id="an old friend"
    ) as connection:
        connection.request(MetadataRequest(topics=[]), version=0)
    clients = json.loads(read(port, "/clients"))["clients"]
    (friend,) = [each for each in clients if each["client_id"] == "an old friend"]
    metadata = [each for each in friend["requests"] if each["api"] == "METADATA"]
    assert [(each["version"], each["count"]) for each in metadata] == [(0, 1)]


def test_clients_command_ignores_proxy_of_environment(page):
    _, port = page
    ran = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "clients", f"127.0.0.1:{port}"],
        env=os.environ | {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_unknown_path_is_not_found(page):
    _, port = page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(port, "/")


def test_dashboard_and_alerts_use_existing_metrics_and_labels(page):
    cluster, port = page
    commit(cluster, "watched", {})
    labels = {}
    for name, of_sample in samples(port):
        labels.setdefault(name, set()).update(key for key, _ in of_sample)
    dashboard = (ROOT / "docker" / "grafana" / "zkbroker-dashboard.json").read_text("utf-8")
    rules = (ROOT / "docker" / "prometheus" / "zkbroker-rules.yml").read_text("utf-8")
    asked = set(re.findall(r"zkbroker_\w+", dashboard + rules))
    assert len(asked) > 40
    # A counter without samples is not shown: no request has failed in a healthy broker.
    assert asked - labels.keys() - client_metric_names(cluster) <= {"zkbroker_errors_total"}
    panels = json.loads(dashboard)["panels"]
    shown = [rules, *(each["expr"] for panel in panels for each in panel["targets"])]
    selectors = re.findall(r"(zkbroker_\w+)\{([^}]*)\}", "\n".join(shown))
    assert len(selectors) > 40
    for name, selected in selectors:
        # Clients have pages of their own; an error has its series once a request failed.
        if name in labels:
            given = set(re.findall(r"(\w+)=", selected))
            assert given <= labels[name] | {"instance", "job"}, name


def commit(cluster, group, offsets):
    """Commit for a new topic, and the given offsets; return the topic."""
    topic = cluster.create_topic(partitions=2)
    with open_cluster(cluster.bootstrap_servers, None) as brokers:
        set_offsets(brokers, group, {(topic, 0): 0, (topic, 1): 0, **offsets})
    return topic


def test_committed_offsets_and_log_ends_are_exposed(page):
    cluster, port = page
    topic = commit(cluster, "counting", {})
    with open_cluster(cluster.bootstrap_servers, None) as brokers:
        set_offsets(brokers, "counting", {(topic, 1): 7})
    found = samples(port)

    def committed(partition):
        where = (("group", "counting"), ("partition", partition), ("topic", topic))
        return found["zkbroker_group_committed_offset", where]

    assert (committed("0"), committed("1")) == (0, 7)
    assert found["zkbroker_log_end_offset", (("partition", "1"), ("topic", topic))] == 0
    assert found["zkbroker_groups", (("state", "empty"),)] >= 1
    assert found["zkbroker_groups_left_out", ()] == 0


def test_session_directory_connection_and_request_metrics_are_exposed(page):
    cluster, port = page
    found = samples(port)
    states = {state: found["zkbroker_zookeeper_session_state", (("state", state),)]
              for state in ("connected", "suspended", "lost")}  # fmt: skip
    assert states == {"connected": 1, "suspended": 0, "lost": 0}
    at = (("directory", str(cluster.broker(1).data_directory)),)
    assert found["zkbroker_log_directory_offline", at] == 0
    assert found["zkbroker_log_directory_free_bytes", at] > 0
    assert (
        found["zkbroker_log_directory_free_bytes", at]
        < found["zkbroker_log_directory_total_bytes", at]
    )
    held = sum(value for (name, _), value in found.items() if name == "zkbroker_log_size_bytes")
    assert found["zkbroker_log_directory_size_bytes", at] == held
    assert found["zkbroker_log_offline_log_directory_count", ()] == 0
    # At least that of the controller, which is this broker.
    assert found["zkbroker_connections", (("listener", "PLAINTEXT"),)] >= 1
    assert found["zkbroker_connections_accepted_total", ()] >= 1
    assert found["zkbroker_connections_refused_total", ()] == 0
    assert found["zkbroker_request_queue_size", ()] == 0
    assert found["zkbroker_request_handled_now", ()] >= 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_rules():
    directory = ROOT / "docker" / "prometheus"
    for command in (
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("check", "rules", "zkbroker-rules.yml"),
        ("test", "rules", "zkbroker-rules-test.yml"),
    ):
        ran = subprocess.run(
            ["promtool", *command],
            cwd=directory, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr


def client_metric_names(cluster):
    producer = Producer(
        ProducerConfig.from_properties({"metadata.broker.list": cluster.bootstrap_servers})
    )
    consumer = GroupConsumer(GroupConsumerConfig(bootstrap_servers=(cluster.bootstrap_servers,)))
    with producer, consumer:
        return {
            name + ending
            for client in (producer, consumer)
            for name in (metric_name(each.bean, client.role) for each in client.measures())
            for ending in ("", "_total", "_seconds_bucket")
        }


def client_samples(client):
    return {
        (measure.bean, *labels): value.count if isinstance(value, Histogram) else value
        for measure in client.measures()
        for labels, value in measure.samples
    }


def test_clients_count_a_known_workload_exactly(page):
    cluster, _ = page
    topic = cluster.create_topic(partitions=2)
    config = ProducerConfig.from_properties(
        {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "1"}
    )
    with Producer(config) as producer:
        for number in range(20):
            producer.send(KeyedMessage(topic, b"x" * 100, partition=number % 2))
        sent = client_samples(producer)
        resends = producer.metrics()["retries"]
    assert sent["MessagesPerSec", topic] == 20
    # A leader that is not known yet, on a busy machine, is an attempt without a request.
    assert sent["ProducerRequestRateAndTimeMs",] >= 20
    assert sent["BytesPerSec", topic] >= 20 * 100
    assert sent["DroppedMessagesPerSec",] == sent["FailedSendsPerSec",] == 0
    assert sent["ResendsPerSec",] == resends
    assert sent["ProducerQueueSize",] == 0
    both = {
        "coordinator": GroupConsumer(
            GroupConsumerConfig(
                bootstrap_servers=(cluster.bootstrap_servers,),
                group_id="measured",
                auto_offset_reset="earliest",
            )
        ),
        "zookeeper": Consumer.create(
            ConsumerConfig(
                group_id="measured",
                zookeeper_connect=cluster.zookeeper,
                auto_offset_reset="smallest",
            )
        ),
    }
    with both["coordinator"] as member:
        member.subscribe([topic])
        read = 0
        while read < 20:
            read += len(member.poll(0.1, 7))
        check_read(member, topic)
    with both["zookeeper"] as connector:
        stream = connector.create_message_streams({topic: 1})[topic][0]
        for _, _ in zip(range(20), stream, strict=False):
            pass
        check_read(connector, topic)


def check_read(consumer, topic):
    found = client_samples(consumer)
    assert found["MessagesPerSec", topic] == 20
    assert found["BytesPerSec", topic] >= 20 * 100
    assert found["ConsumerLag", topic, "0"] == found["ConsumerLag", topic, "1"] == 0
    assert found["MaxLag",] == 0
    assert found["OwnedPartitionsCount",] == 2
    assert found["RebalancesPerSec",] >= 1
    assert found["FetchRequestRateAndTimeMs",] >= 1


def test_refused_messages_are_counted(page):
    cluster, _ = page
    topic = cluster.create_topic(partitions=1)
    config = ProducerConfig.from_properties(
        {
            "metadata.broker.list": cluster.bootstrap_servers,
            "producer.type": "async",
            "queue.buffering.max.messages": "5",
            "queue.buffering.max.ms": "60000",
            "queue.enqueue.timeout.ms": "0",
        }
    )
    with Producer(config) as producer:
        refused = 0
        for _ in range(2000):
            try:
                producer.send(KeyedMessage(topic, b"x"))
            except QueueFull:
                refused += 1
        assert client_samples(producer)["DroppedMessagesPerSec",] == refused


def test_suspended_session_is_exposed(page, proxy):
    _, port = page
    connected = ("zkbroker_zookeeper_session_state", (("state", "connected"),))
    proxy.cut()
    proxy.heal()  # The connection is closed, which is noticed at once.
    proxy.cut()
    try:
        eventually(lambda: samples(port)[connected] == 0)
        eventually(lambda: samples(port)["zkbroker_zookeeper_disconnects_total", ()] >= 1)
    finally:
        proxy.heal()
    eventually(lambda: samples(port)[connected] == 1)
