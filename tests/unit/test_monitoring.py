"""Clients in Prometheus form under the names of the JMX beans."""

import urllib.request

from prometheus_client.core import CollectorRegistry
from prometheus_client.exposition import generate_latest

from zkbroker.measures import Family, SharedHistogram, TopicTable
from zkbroker.monitoring import ClientCollector, metric_name, serve
from zkbroker.zookeeper.embedded import free_port


class Client:
    role = "producer"

    def __init__(self, client_id="c", queue=3):
        self.client_id = client_id
        self.queue = queue

    def measures(self):
        yield Family.single("ProducerQueueSize", self.queue)
        times = SharedHistogram()
        times.observe(0.004)
        yield Family.single("ProducerRequestRateAndTimeMs", times)
        table = TopicTable()
        table.topic("t").add(5, 500)
        yield from table.families()


def test_metric_names_follow_the_jmx_beans():
    assert metric_name("MessagesPerSec", "producer") == "zkbroker_producer_messages"
    assert metric_name("ProducerQueueSize", "producer") == "zkbroker_producer_queue_size"
    assert metric_name("ConsumerLag", "consumer") == "zkbroker_consumer_lag"
    assert metric_name("MaxLag", "consumer") == "zkbroker_consumer_max_lag"
    assert metric_name("FetchRequestRateAndTimeMs", "consumer") == "zkbroker_consumer_fetch_request"


def text(*clients):
    registry = CollectorRegistry()
    registry.register(ClientCollector(*clients))
    return generate_latest(registry).decode()


def test_counters_gauges_and_histograms_are_exposed():
    shown = text(Client())
    assert 'zkbroker_producer_messages_total{client_id="c",topic="t"} 5.0' in shown
    assert 'zkbroker_producer_bytes_total{client_id="c",topic="t"} 500.0' in shown
    assert 'zkbroker_producer_queue_size{client_id="c"} 3.0' in shown
    assert 'zkbroker_producer_request_seconds_bucket{client_id="c",le="0.0025"} 0.0' in shown
    assert 'zkbroker_producer_request_seconds_bucket{client_id="c",le="0.005"} 1.0' in shown
    assert 'zkbroker_producer_request_seconds_count{client_id="c"} 1.0' in shown


def test_clients_with_equal_ids_are_distinguished():
    shown = text(Client("", 1), Client("", 2), Client("other", 4))
    for name, queue in (("producer", 1), ("producer-2", 2), ("other", 4)):
        assert f'zkbroker_producer_queue_size{{client_id="{name}"}} {queue}.0' in shown


def test_metrics_are_served_on_a_port():
    port = free_port()
    stop = serve(port, Client())
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"zkbroker_producer_queue_size" in answer.read()
    stop()
