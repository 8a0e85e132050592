"""Our producer to a 0.7 cluster: partitions, codecs, queues, closed connections."""

import uuid
from contextlib import contextmanager

import pytest

from tests.support.client07 import Broker07, broker_address, parse
from tests.support.cluster07 import OurMember07, cluster07, ends, make_topic, registry_tree
from tests.support.zookeeper import until
from zkbroker.errors import ClientError
from zkbroker.legacy07.producer_config import ProducerConfig07
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.producer.errors import MessageTooLarge, QueueFull
from zkbroker.producer.partitioners import java_hash
from zkbroker.records.legacy07 import entries
from zkbroker.types import Partition07


def config(tree, **settings):
    properties = {
        "zk.connect": tree.connect_string,
        **{key.replace("_", "."): str(value) for key, value in settings.items()},
    }
    return ProducerConfig07.from_properties(properties)


def stored(tree, topic):
    """Return the payloads of each partition in the order of the log, wrappers unpacked."""
    found = {}
    for name, end in ends(tree, topic).items():
        number, partition = map(int, name.split("-"))
        broker = Broker07(*broker_address(tree, number))
        ((error, data),) = broker.multifetch([(topic, partition, 0)], size=end or 1)
        assert error == 0
        found[name] = [each for _, _, inner in parse(data) for each in inner]
        broker.close()
    return found


def count(tree, topic):
    return sum(map(len, stored(tree, topic).values()))


@contextmanager
def running(zookeeper, directory, **settings):
    """Yield the registry of a cluster; with its brokers, and the folder of the first one's logs."""
    chroot = f"{zookeeper.connect_string}/{directory.name}"
    with (
        registry_tree(chroot) as registry,
        cluster07(directory, chroot, registry, **settings) as brokers,
    ):
        registry.brokers, registry.folder = brokers, directory / "b0" / "legacy"
        yield registry


@pytest.fixture(scope="module")
def pair(zookeeper, tmp_path_factory):
    """Two brokers with two partitions of each topic."""
    with running(zookeeper, tmp_path_factory.mktemp("pair-07")) as registry:
        yield registry


@pytest.fixture(scope="module")
def single(zookeeper, tmp_path_factory):
    """A broker with one partition of each topic."""
    directory = tmp_path_factory.mktemp("single-07")
    with running(zookeeper, directory, brokers=1, num_partitions=1) as registry:
        yield registry


@pytest.fixture
def topic():
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_keys_choose_among_partitions_of_all_brokers(pair, topic, runtime):
    make_topic(pair, topic)
    names = ["0-0", "0-1", "1-0", "1-1"]
    expected = {name: [] for name in names}
    with Producer(config(pair, serializer_class="StringEncoder"), runtime=runtime) as producer:
        for n in range(60):
            key = f"key {n % 7}"
            place = producer.send(KeyedMessage(topic, f"{n}", key=key))
            name = names[abs(java_hash(key)) % 4]
            assert (str(place.partition), place.offset) == (name, -1)
            expected[name].append(b"%d" % n)
    until(lambda: count(pair, topic) == 62)
    for name, bodies in stored(pair, topic).items():
        assert [m for m in bodies if not m.startswith(b"first")] == expected[name]


def test_keyless_messages_reach_all_partitions_and_new_topic_begins_at_partition_0(pair, topic):
    with Producer(config(pair)) as producer:
        for n in range(60):
            # Partition 0 of each broker, until the registry has more partitions.
            place = producer.send(KeyedMessage(topic, b"%d" % n))
            if n == 0:
                assert place.partition in (Partition07(0, 0), Partition07(1, 0))
        until(lambda: pair.exists(f"/brokers/topics/{topic}"))
        until(lambda: len(pair.get_children(f"/brokers/topics/{topic}")) == 2)
        until(lambda: count(pair, topic) == 60)
        seen = set()

        def all_seen():
            seen.add(str(producer.send(KeyedMessage(topic, b"x")).partition))
            return len(seen) == 4

        until(all_seen)
        place = producer.send(KeyedMessage(topic, b"there", partition=Partition07(1, 1)))
        assert place.partition == Partition07(1, 1)
        with pytest.raises(ClientError, match="no partition 5-0: it has 4; give 0-0 to 1-1"):
            producer.send(KeyedMessage(topic, b"there", partition=Partition07(5, 0)))


def test_listed_brokers_choose_partition(pair, topic):
    make_topic(pair, topic)
    listed = ",".join(f"{n}:%s:%d" % broker_address(pair, n) for n in range(2))
    settings = ProducerConfig07.from_properties({"broker.list": listed})
    with Producer(settings) as producer:
        for n in range(200):
            producer.send(KeyedMessage(topic, b"%03d" % n))
    until(lambda: count(pair, topic) == 202)
    assert all(stored(pair, topic).values())


@pytest.mark.parametrize("codec", ["0", "1", "2"])
def test_async_sets_are_in_order_and_listed_topics_are_compressed(single, topic, codec):
    make_topic(single, topic, brokers=1)
    make_topic(single, plain := f"{topic}-plain", brokers=1)
    start = ends(single, topic)["0-0"]
    settings = config(
        single,
        producer_type="async",
        compression_codec=codec,
        compressed_topics=topic,
        queue_time="60000",
        batch_size="50",
    )
    with Producer(settings) as producer:
        for n in range(120):
            for name in (topic, plain):
                producer.send(KeyedMessage(name, b"%03d" % n))
    reader = OurMember07(single.connect_string, "g", {topic: 1, plain: 1})
    until(lambda: len(reader.messages) == 242)
    for name in (topic, plain):
        bodies = [m.value for m in reader.messages if m.topic == name]
        assert bodies[1:] == [b"%03d" % n for n in range(120)]
    reader.close()
    log = (single.folder / f"{topic}-0" / f"{0:020d}.kafka").read_bytes()
    attributes = [each.attributes for each in entries(log[start:])]
    assert attributes == ([0] * 120 if codec == "0" else [int(codec)] * 3)
    log = (single.folder / f"{plain}-0" / f"{0:020d}.kafka").read_bytes()
    assert {each.attributes for each in entries(log)} == {0}


def test_stopped_broker_is_left_out_and_used_after_restart(pair, topic):
    first = make_topic(pair, topic)
    settings = config(pair, producer_type="async", num_retries=50, queue_time="5")
    with Producer(settings) as producer:
        sent = [b"%04d" % n for n in range(300)]
        for body in sent[:100]:
            producer.send(KeyedMessage(topic, body))
        producer.flush()
        # Messages written to a killed broker may be lost without an error.
        until(lambda: count(pair, topic) == 102)
        pair.brokers[1].kill()
        until(lambda: pair.get_children("/brokers/ids") == ["0"])
        until(lambda: set(ends(pair, topic)) == {"0-0", "0-1"})
        # A message keeps its chosen partition, so the producer must know of the broker, too.
        until(lambda: set(producer._cluster.brokers()) == {0})
        for body in sent[100:200]:
            producer.send(KeyedMessage(topic, body))
        producer.flush()
        pair.brokers[1].start()
        until(lambda: len(ends(pair, topic)) == 4)
        places = {
            str(producer.send(KeyedMessage(topic, body)).result(20).partition)
            for body in sent[200:]
        }
        producer.flush()
        assert places == {"0-0", "0-1", "1-0", "1-1"}
    until(lambda: count(pair, topic) == 302)
    bodies = [each for found in stored(pair, topic).values() for each in found]
    assert sorted(bodies) == sorted([*first, *sent])


def test_closed_connection_is_detected_before_next_write(single, topic, caplog):
    make_topic(single, topic, brokers=1)
    host, port = broker_address(single, 0)
    with Producer(ProducerConfig07(host=host, port=port)) as producer:
        producer.send(KeyedMessage(topic, b"before"))
        until(lambda: count(single, topic) == 2)
        # A broker of 0.7 closes the connection for an invalid topic, without a response.
        producer.send(KeyedMessage("bad/topic", b"lost"))
        until(lambda: producer.send(KeyedMessage(topic, b"after")) and count(single, topic) > 2)
    assert "closed by the broker" in caplog.text
    assert single.brokers[0].alive


def test_connection_is_replaced_after_reconnect_interval(single, topic):
    make_topic(single, topic, brokers=1)
    with Producer(config(single, reconnect_interval=2)) as producer:
        for n in range(7):
            producer.send(KeyedMessage(topic, b"%d" % n))
        channel = producer._sender._dispatcher._channels[0]
        assert channel._requests == 1
    until(lambda: count(single, topic) == 8)


def test_too_large_message_and_full_queue_are_refused(single, topic):
    with Producer(config(single, max_message_size=1000)) as producer:
        producer.send(KeyedMessage(topic, bytes(1000)))
        with pytest.raises(MessageTooLarge):
            producer.send(KeyedMessage(topic, bytes(1001)))
    settings = config(single, producer_type="async", queue_size=5, queue_time=60_000)
    with Producer(settings) as producer, pytest.raises(QueueFull):
        for _ in range(10):
            producer.send(KeyedMessage(topic, b"x"))
    until(lambda: count(single, topic) >= 6)


def test_acks_waits_until_broker_handled_message(single, topic):
    make_topic(single, topic, brokers=1)
    with (
        Producer(config(single)) as written,
        Producer(config(single, acks=1)) as taken,
        Producer(config(single, acks=1, socket_timeout_ms=500)) as impatient,
    ):
        taken.send(KeyedMessage(topic, b"taken"))
        single.brokers[0].pause()
        try:
            written.send(KeyedMessage(topic, b"only written"))
            with pytest.raises(ClientError, match="timed out"):
                impatient.send(KeyedMessage(topic, b"not answered"))
        finally:
            single.brokers[0].resume()
        until(lambda: count(single, topic) >= 3)
