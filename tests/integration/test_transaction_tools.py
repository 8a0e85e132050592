"""`zkbroker transactions` against real brokers: open and hanging transactions."""

import json
import subprocess
import sys
import uuid

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer

from zkbroker.cli.main import cli
from zkbroker.errors import ClientError, ProtocolError, UnknownTopicOrPartition
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import ListOffsetsRequest, ProduceRequest
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime

UNKNOWN_PRODUCER = 123_456_789


@pytest.fixture(scope="module")
def cluster(local_cluster):
    settings = {
        # As with genuine brokers of 2.1: a late batch opens a transaction that is never ended.
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "3",
    }
    with local_cluster(properties=settings) as running:
        yield running


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"t-{uuid.uuid4().hex[:6]}", partitions=2)


@pytest.fixture
def run(cluster):
    environment = {"ZKBROKER_BOOTSTRAP": cluster.bootstrap_servers, "COLUMNS": "200"}

    def invoke(*arguments, status=0):
        ran = CliRunner(env=environment).invoke(
            cli, ["transactions", *arguments], catch_exceptions=False
        )
        assert ran.exit_code == status, ran.output
        return ran.output

    return invoke


@pytest.fixture
def name():
    return f"copier-{uuid.uuid4().hex[:6]}"


OPEN_TRANSACTION = """
import os, signal, sys
from confluent_kafka import Producer
servers, name, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
producer.init_transactions(60)
producer.begin_transaction()
for partition in (0, 1):
    producer.produce(topic, b"x", partition=partition)
producer.flush(60)
print("written", flush=True)
signal.pause()
"""


@pytest.fixture
def killed_producer(cluster, topic, name):
    """The transactional id of a producer that was killed within its transaction."""
    with subprocess.Popen(
        [sys.executable, "-c", OPEN_TRANSACTION, cluster.bootstrap_servers, name, topic],
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout.readline() == b"written\n"
        program.kill()
    return name


def request_of(cluster, request):
    """Return the partition of a response about one partition."""
    with BrokerConnection(get_runtime("threads"), *cluster.broker(1).address) as connection:
        return connection.request(request).topics[0].partitions[0]


def stable_offset(cluster, topic, partition):
    asked = [ListOffsetsRequestPartition(partition, timestamp=-1)]
    topics = [ListOffsetsRequestTopic(topic, asked)]
    return request_of(cluster, ListOffsetsRequest(isolation_level=1, topics=topics)).offset


def write_hanging_batch(cluster, topic, partition, producer_id=UNKNOWN_PRODUCER, epoch=3):
    """Write a batch of a transaction that no coordinator knows."""
    data = encode_message_set(
        [(None, b"late", 1_000, ()), (None, b"late", 2_000, ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    topics = [ProduceRequestTopic(topic, [ProduceRequestPartition(partition, data)])]
    assert request_of(cluster, ProduceRequest("unknown", -1, 10_000, topics)).error_code == 0


def test_transaction_of_a_killed_producer_is_listed_and_aborted(
    cluster, run, killed_producer, topic
):
    listed = {each["transactional_id"]: each for each in json.loads(run("list", "--json"))}
    assert (listed[killed_producer]["state"], listed[killed_producer]["coordinator"]) == (
        "Ongoing",
        1,
    )
    assert killed_producer in run("list", "--state", "ongoing")
    assert killed_producer not in run("list", "--state", "Empty")
    described = json.loads(run("describe", killed_producer, "--json"))
    assert described["partitions"] == [
        {"topic": topic, "partition": number, "first_offset": 0} for number in (0, 1)
    ]
    assert described["open_ms"] >= 0
    shown = run("describe", killed_producer)
    assert "state:            Ongoing" in shown
    assert "time-out:         1 m" in shown
    # Its coordinator knows it, so it is not hanging, however long it takes.
    found = json.loads(run("find-hanging", "-t", topic, "--older-than", "0s", "--all", "--json"))
    assert [(each["transactional_id"], each["fate"]) for each in found] == [
        (killed_producer, "ongoing")
    ] * 2
    assert stable_offset(cluster, topic, 0) == 0
    with pytest.raises(ClientError, match=f"transactions abort {killed_producer}"):
        run("abort", "-t", topic, "-p", "0", "--start-offset", "0")
    assert f"aborted the transaction of {killed_producer} in 2 partitions" in run(
        "abort", killed_producer
    )
    assert [stable_offset(cluster, topic, number) for number in (0, 1)] == [2, 2]
    with pytest.raises(ClientError, match=r"no transaction to abort \(state Empty\)"):
        run("abort", killed_producer)


@pytest.fixture
def producer(cluster, name, topic):
    """A producer that has sent a message in its open transaction."""
    made = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    made.init_transactions(60)
    made.begin_transaction()
    made.produce(topic, b"x", partition=0)
    made.flush(60)
    return made


def test_producer_of_an_aborted_transaction_is_fenced(cluster, run, name, topic, producer):
    run("abort", name)
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(60)
    assert raised.value.args[0].fatal()
    assert stable_offset(cluster, topic, 0) == 2


def test_hanging_transaction_is_found_and_aborted_by_a_marker(cluster, run, topic):
    write_hanging_batch(cluster, topic, 1)
    assert stable_offset(cluster, topic, 1) == 0
    assert "1 m" in run("find-hanging", "-t", topic, "-p", "0", "--older-than", "1m")
    command = f"zkbroker transactions abort -t {topic} -p 1 --start-offset 0"
    assert command in run("find-hanging", "-t", topic, status=1)
    everywhere = json.loads(run("find-hanging", "--json", status=1))
    (found,) = [each for each in everywhere if each["topic"] == topic]
    assert (found["partition"], found["producer_epoch"]) == (1, 3)
    assert found["producer_id"] == UNKNOWN_PRODUCER
    assert (found["first_offset"], found["last_offset"], found["fate"]) == (0, 1, "hanging")
    assert found["transactional_id"] is None
    with pytest.raises(ClientError, match="no open transaction begins at offset 1"):
        run("abort", "-t", topic, "-p", "1", "--start-offset", "1")
    assert "offsets 0 to 1" in run(*command.split()[2:])
    assert stable_offset(cluster, topic, 1) == 3
    run("find-hanging", "-t", topic)


def test_late_batch_after_commit_is_found_hanging_and_aborted(cluster, run, name, topic, producer):
    producer.commit_transaction(60)
    known = json.loads(run("describe", name, "--json"))
    write_hanging_batch(cluster, topic, 1, known["producer_id"], known["producer_epoch"])
    (found,) = json.loads(run("find-hanging", "-t", topic, "--json", status=1))
    assert (found["transactional_id"], found["fate"]) == (name, "hanging")
    run("abort", "-t", topic, "-p", "1", "--start-offset", "0")
    assert stable_offset(cluster, topic, 1) == 3
    # Its producer is not affected.
    producer.begin_transaction()
    producer.produce(topic, b"y", partition=0)
    producer.commit_transaction(60)


def test_unknown_ids_topics_and_partitions_are_refused(run, topic):
    with pytest.raises(ClientError, match=r"no transactional id 'unknown'.*transactions list"):
        run("describe", "unknown")
    with pytest.raises(ClientError, match="no transactional id 'unknown'"):
        run("abort", "unknown")
    with pytest.raises(ClientError, match=f"topic {topic} has no partition 7: it has 2"):
        run("find-hanging", "-t", topic, "-p", "7")
    with pytest.raises(UnknownTopicOrPartition, match="no-such-topic does not exist"):
        run("find-hanging", "-t", "no-such-topic")
    with pytest.raises(UnknownTopicOrPartition, match="no-such-topic does not exist"):
        run("abort", "-t", "no-such-topic", "-p", "0", "--start-offset", "0")
    with pytest.raises(ClientError, match="none is open in this partition"):
        run("abort", "-t", topic, "-p", "0", "--start-offset", "0")
    with pytest.raises(ProtocolError, match=f"{topic}-7"):
        run("abort", "-t", topic, "-p", "7", "--start-offset", "0")
