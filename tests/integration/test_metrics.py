"""The metrics of a known workload are exact, under the names that operators know."""

import json
import re
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.markdown import ROOT
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.network import BrokerConnection
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster


@pytest.fixture(scope="module")
def page():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with LocalCluster(properties={"admin.port": str(port)}) as cluster:
        cluster.create_topic("first")
        yield cluster, port


def read(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def samples(port):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(read(port, "/metrics"))
        for sample in family.samples
    }


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


def test_who_speaks_what_is_told(page):
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


def test_another_path_is_not_found(page):
    _, port = page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(port, "/")


def test_the_dashboard_asks_only_for_metrics_there_are(page):
    _, port = page
    known = {name for name, _ in samples(port)}
    dashboard = (ROOT / "docker" / "grafana" / "zkbroker-dashboard.json").read_text("utf-8")
    asked = set(re.findall(r"zkbroker_\w+", dashboard))
    assert len(asked) > 10
    # A counter without samples is not shown: no request has failed in a healthy broker.
    assert asked - known <= {"zkbroker_errors_total"}
