"""Metrics of a known number of transactions, and the lag of the last stable offset."""

import urllib.request

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.support.process import wait_until
from zkbroker.zookeeper.embedded import free_port


@pytest.fixture(scope="module")
def page(local_cluster):
    port = free_port()
    settings = {
        "admin.port": str(port),
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    }
    with local_cluster(properties=settings) as cluster:
        yield cluster, port


def samples(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix("zkbroker_"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_transactions_are_counted_exactly(page):
    cluster, port = page
    topic = cluster.create_topic(partitions=1)

    def shows(**wanted):
        assert wait_until(
            lambda: {name: samples(port)[f"transaction_{name}_total",] for name in wanted} == wanted
        ), {name: value for (name, *_), value in samples(port).items() if "transaction" in name}

    def lag():
        return samples(port)["last_stable_offset_lag", "0", topic]

    def ids(state):
        return samples(port)["transactional_ids", state]

    def begin(name, **settings):
        where = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}
        made = Producer(where | settings)
        made.init_transactions(60)
        return made

    producer = begin("counted")
    shows(begun=0, commits=0, aborts=0)
    assert ids("empty") == 1
    for number in range(5):
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush(60)  # an abort drops unsent messages
        if number < 3:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    shows(begun=5, commits=3, aborts=2, timeouts=0, fenced=0, failed_writes=0)
    assert wait_until(lambda: ids("complete_abort") == 1)
    assert lag() == 0
    producer.begin_transaction()
    for _ in range(4):
        producer.produce(topic, b"x", partition=0)
    producer.flush(60)
    found = samples(port)
    assert found["last_stable_offset_lag", "0", topic] == 4
    assert found["transactional_ids", "ongoing"] == 1
    assert found["transaction_oldest_open_seconds",] > 0
    producer.commit_transaction(60)
    # One that is not ended: the coordinator aborts it after its timeout.
    late = begin("late", **{"transaction.timeout.ms": 3_000})
    late.begin_transaction()
    late.produce(topic, b"x", partition=0)
    late.flush(60)
    shows(begun=7, commits=4, aborts=3, timeouts=1)
    assert lag() == 0
    found = samples(port)
    assert found["transaction_oldest_open_seconds",] == 0
    assert found["transaction_marker_queue_size",] == 0
    assert found["transaction_marker_unknown_destination_queue_size",] == 0
    assert found["transaction_log_append_retry_queue_size",] == 0
    assert ("transaction_marker_retries_total",) in found
    assert ("transaction_expired_total",) in found


def test_manual_lists_every_transaction_metric(page):
    from tests.support.markdown import ROOT

    manual = (ROOT / "docs" / "operations.md").read_text()
    named = {name for name, *_ in samples(page[1]) if name.startswith("transaction")}
    named = {name for name in named if not name.endswith("_created")}
    assert len(named) >= 12
    for name in named:
        short = "…_" + name.removeprefix("transaction_")
        assert f"zkbroker_{name}" in manual or f"`{short}`" in manual, name
