"""The producer against real brokers and a real ZooKeeper."""

from collections.abc import Iterator

import pytest

from tests.support.clusters import MakeCluster
from tests.support.zookeeper import until
from zkbroker.admin.topics import add_partitions
from zkbroker.client import Cluster, StaticSource
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.producer import (
    BrokersUnavailable,
    KeyedMessage,
    MessageTooLarge,
    Producer,
    SendFailed,
    TopicUnavailable,
)
from zkbroker.records import Codec, Record, iter_entries
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

RUNTIMES = pytest.mark.parametrize("runtime", ["threads", "gevent"])
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    properties = {"auto.create.topics.enable": "false", "message.max.bytes": "100000"}
    with local_cluster(2, properties=properties) as running:
        yield running


def producer(cluster: LocalCluster, runtime: str = "threads", **properties: object) -> Producer:
    given = {"zk.connect": cluster.zookeeper, "retry.backoff.ms": "20"}
    given |= {key.replace("_", "."): str(value) for key, value in properties.items()}
    return Producer(ProducerConfig.from_properties(given), runtime=runtime)


def fetch(cluster: LocalCluster, topic: str, partition: int) -> tuple[list[Record], bytes]:
    with Cluster(StaticSource(cluster.bootstrap_servers)) as view:
        leader = next(p.leader for p in view.partitions(topic) if p.partition == partition)
        address = view.brokers()[leader]
        with SimpleConsumer(address.host, address.port) as consumer:
            found = consumer.fetch(FetchRequest(topic, partition, 0, 1 << 22))
            return list(found), bytes(found.raw)


@RUNTIMES
@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_every_codec_are_stored_unchanged(cluster, runtime, codec):
    topic = cluster.create_topic()
    headers = [("h", b"1"), ("n", None)]
    messages = [
        KeyedMessage(topic, b"value %d" % i * 20, key=b"%d" % i, headers=headers, timestamp_ms=i)
        for i in range(100)
    ]
    with producer(cluster, runtime, compression_codec=codec) as sender:
        places = sender.send(messages)
    assert [place.offset for place in places] == list(range(100))
    records, raw = fetch(cluster, topic, 0)
    assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == [
        (m.key, m.message, m.timestamp_ms, tuple(headers)) for m in messages
    ]
    entries = list(iter_entries(raw))
    assert {entry.codec for entry in entries} == {Codec.from_name(codec)}
    assert {entry.magic for entry in entries} == {2}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_older_message_formats_are_written_on_request(cluster, magic, codec):
    topic = cluster.create_topic(config={"message.format.version": ("0.9.0", "0.10.2")[magic]})
    with producer(cluster, message_format=magic, compression_codec=codec) as sender:
        places = sender.send([KeyedMessage(topic, b"%d" % i, key=b"k") for i in range(10)])
    assert [place.offset for place in places] == list(range(10))
    records, raw = fetch(cluster, topic, 0)
    assert [record.value for record in records] == [b"%d" % i for i in range(10)]
    assert {entry.magic for entry in iter_entries(raw)} == {magic}


def test_only_listed_topics_are_compressed(cluster):
    listed, other = cluster.create_topic(), cluster.create_topic()
    with producer(cluster, compression_codec="gzip", compressed_topics=listed) as sender:
        sender.send([KeyedMessage(topic, b"x" * 100) for topic in (listed, other)])
    for topic, codec in ((listed, Codec.GZIP), (other, Codec.NONE)):
        assert next(iter_entries(fetch(cluster, topic, 0)[1])).codec == codec


@RUNTIMES
def test_unknown_topic_without_auto_creation_raises_topic_unavailable(cluster, runtime):
    with (
        producer(cluster, runtime) as sender,
        pytest.raises(SendFailed, match=r"create topic nowhere, or set auto\.create") as caught,
    ):
        sender.send(KeyedMessage("nowhere", b"x"))
    assert isinstance(caught.value.failed[0][1], TopicUnavailable)


@RUNTIMES
def test_message_too_large_for_broker_raises_message_too_large(cluster, runtime):
    topic = cluster.create_topic()
    with (
        producer(cluster, runtime) as sender,
        pytest.raises(SendFailed, match=r"raise message\.max\.bytes") as caught,
    ):
        sender.send([KeyedMessage(topic, b"a"), KeyedMessage(topic, b"x" * 150_000)])
    assert isinstance(caught.value.failed[0][1], MessageTooLarge)
    assert [message.message for message, _ in caught.value.sent] == [b"a"]


@RUNTIMES
def test_added_partitions_are_used_without_restart(cluster, runtime):
    topic = cluster.create_topic()
    with producer(cluster, runtime) as sender:
        sender.send(KeyedMessage(topic, b"x"))
        with ZkSession(cluster.zookeeper) as session:
            add_partitions(session, topic, 3)
        seen = set()

        def all_are_used() -> bool:
            seen.add(sender.send(KeyedMessage(topic, b"x")).partition)
            return seen == {0, 1, 2}

        until(all_are_used)


@RUNTIMES
def test_only_hosted_partitions_accept_messages_behind_single_address(cluster, runtime):
    both = cluster.create_topic(partitions=2)
    host, port = cluster.broker(1).address
    config = ProducerConfig(broker_address=(f"{host}:{port}",), retry_backoff_ms=20)
    with Cluster(StaticSource(cluster.bootstrap_servers)) as view:
        mine = next(p.partition for p in view.partitions(both) if p.leader == 1)
    with Producer(config, runtime=runtime) as sender:
        places = sender.send([KeyedMessage(both, b"x") for _ in range(10)])
        assert {place.partition for place in places} == {mine}
        with pytest.raises(SendFailed, match="leader"):
            sender.send(KeyedMessage(both, b"x", partition=1 - mine))


@RUNTIMES
def test_broker_down_too_long_raises_and_is_used_after_restart(cluster, runtime):
    topic = cluster.create_topic(partitions=2)
    with producer(cluster, runtime, enable_idempotence="true") as sender:
        sender.send([KeyedMessage(topic, b"before", partition=p) for p in (0, 1)])
        cluster.broker(1).kill()
        with producer(cluster, runtime, retries=1) as impatient:
            outcome = []
            for partition in (0, 1):
                try:
                    impatient.send(KeyedMessage(topic, b"down", partition=partition))
                except SendFailed as error:
                    outcome.append(error.failed[0][1])
        assert len(outcome) == 1
        assert isinstance(outcome[0], BrokersUnavailable)
        assert "message.send.max.retries" in str(outcome[0])
        cluster.broker(1).start()
        places = sender.send([KeyedMessage(topic, b"after", partition=p) for p in (0, 1)])
        assert sorted(place.offset for place in places) == [1, 2]
