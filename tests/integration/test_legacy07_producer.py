"""Our producer to a 0.7 cluster: partitions, codecs, queues, closed connections."""

import pytest

from tests.support.client07 import Broker07, broker_address, parse
from tests.support.cluster07 import OurMember07, ends, make_topic
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


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_keys_choose_among_partitions_of_all_brokers(pair07, topic07, runtime):
    make_topic(pair07, topic07)
    names = ["0-0", "0-1", "1-0", "1-1"]
    expected = {name: [] for name in names}
    with Producer(config(pair07, serializer_class="StringEncoder"), runtime=runtime) as producer:
        for n in range(60):
            key = f"key {n % 7}"
            place = producer.send(KeyedMessage(topic07, f"{n}", key=key))
            name = names[abs(java_hash(key)) % 4]
            assert (str(place.partition), place.offset) == (name, -1)
            expected[name].append(b"%d" % n)
    until(lambda: count(pair07, topic07) == 62)
    for name, bodies in stored(pair07, topic07).items():
        assert [m for m in bodies if not m.startswith(b"first")] == expected[name]


def test_keyless_messages_reach_all_partitions_and_new_topic_begins_at_partition_0(pair07, topic07):
    with Producer(config(pair07)) as producer:
        for n in range(60):
            # Partition 0 of each broker, until the registry has more partitions.
            place = producer.send(KeyedMessage(topic07, b"%d" % n))
            if n == 0:
                assert place.partition in (Partition07(0, 0), Partition07(1, 0))
        # If the first broker registered it soon, the other one has not received a message yet.
        make_topic(pair07, topic07)
        until(lambda: count(pair07, topic07) == 62)
        seen = set()

        def all_seen():
            seen.add(str(producer.send(KeyedMessage(topic07, b"x")).partition))
            return len(seen) == 4

        until(all_seen)
        place = producer.send(KeyedMessage(topic07, b"there", partition=Partition07(1, 1)))
        assert place.partition == Partition07(1, 1)
        with pytest.raises(ClientError, match="no partition 5-0: it has 4; give 0-0 to 1-1"):
            producer.send(KeyedMessage(topic07, b"there", partition=Partition07(5, 0)))


def test_listed_brokers_choose_partition(pair07, topic07):
    make_topic(pair07, topic07)
    listed = ",".join(f"{n}:%s:%d" % broker_address(pair07, n) for n in range(2))
    settings = ProducerConfig07.from_properties({"broker.list": listed})
    with Producer(settings) as producer:
        for n in range(200):
            producer.send(KeyedMessage(topic07, b"%03d" % n))
    until(lambda: count(pair07, topic07) == 202)
    assert all(stored(pair07, topic07).values())


@pytest.mark.parametrize("codec", ["0", "1", "2"])
def test_async_sets_are_in_order_and_listed_topics_are_compressed(single07, topic07, codec):
    make_topic(single07, topic07, brokers=1)
    make_topic(single07, plain := f"{topic07}-plain", brokers=1)
    start = ends(single07, topic07)["0-0"]
    settings = config(
        single07,
        producer_type="async",
        compression_codec=codec,
        compressed_topics=topic07,
        queue_time="60000",
        batch_size="50",
    )
    with Producer(settings) as producer:
        for n in range(120):
            for name in (topic07, plain):
                producer.send(KeyedMessage(name, b"%03d" % n))
    reader = OurMember07(single07.connect_string, "g", {topic07: 1, plain: 1})
    until(lambda: len(reader.messages) == 242)
    for name in (topic07, plain):
        bodies = [m.value for m in reader.messages if m.topic == name]
        assert bodies[1:] == [b"%03d" % n for n in range(120)]
    reader.close()
    log = (single07.folder / f"{topic07}-0" / f"{0:020d}.kafka").read_bytes()
    attributes = [each.attributes for each in entries(log[start:])]
    assert attributes == ([0] * 120 if codec == "0" else [int(codec)] * 3)
    log = (single07.folder / f"{plain}-0" / f"{0:020d}.kafka").read_bytes()
    assert {each.attributes for each in entries(log)} == {0}


def test_stopped_broker_is_left_out_and_used_after_restart(pair07, topic07):
    first = make_topic(pair07, topic07)
    settings = config(pair07, producer_type="async", num_retries=50, queue_time="5")
    with Producer(settings) as producer:
        sent = [b"%04d" % n for n in range(300)]
        for body in sent[:100]:
            producer.send(KeyedMessage(topic07, body))
        producer.flush()
        # Messages written to a killed broker may be lost without an error.
        until(lambda: count(pair07, topic07) == 102)
        pair07.brokers[1].kill()
        until(lambda: pair07.get_children("/brokers/ids") == ["0"])
        until(lambda: set(ends(pair07, topic07)) == {"0-0", "0-1"})
        # A message keeps its chosen partition, so the producer must know of the broker, too.
        until(lambda: set(producer._cluster.brokers()) == {0})
        for body in sent[100:200]:
            producer.send(KeyedMessage(topic07, body))
        producer.flush()
        pair07.brokers[1].start()
        until(lambda: len(ends(pair07, topic07)) == 4)
        places = {
            str(producer.send(KeyedMessage(topic07, body)).result(20).partition)
            for body in sent[200:]
        }
        producer.flush()
        assert places == {"0-0", "0-1", "1-0", "1-1"}
    until(lambda: count(pair07, topic07) == 302)
    bodies = [each for found in stored(pair07, topic07).values() for each in found]
    assert sorted(bodies) == sorted([*first, *sent])


def test_closed_connection_is_detected_before_next_write(single07, topic07, caplog):
    make_topic(single07, topic07, brokers=1)
    host, port = broker_address(single07, 0)
    with Producer(ProducerConfig07(host=host, port=port)) as producer:
        producer.send(KeyedMessage(topic07, b"before"))
        until(lambda: count(single07, topic07) == 2)
        # A broker of 0.7 closes the connection for an invalid topic, without a response.
        producer.send(KeyedMessage("bad/topic", b"lost"))
        until(
            lambda: producer.send(KeyedMessage(topic07, b"after")) and count(single07, topic07) > 2
        )
    assert "closed by the broker" in caplog.text
    assert single07.brokers[0].alive


def test_connection_is_replaced_after_reconnect_interval(single07, topic07):
    make_topic(single07, topic07, brokers=1)
    with Producer(config(single07, reconnect_interval=2)) as producer:
        for n in range(7):
            producer.send(KeyedMessage(topic07, b"%d" % n))
        channel = producer._sender._dispatcher._channels[0]
        assert channel._requests == 1
    until(lambda: count(single07, topic07) == 8)


def test_too_large_message_and_full_queue_are_refused(single07, topic07):
    with Producer(config(single07, max_message_size=1000)) as producer:
        producer.send(KeyedMessage(topic07, bytes(1000)))
        with pytest.raises(MessageTooLarge):
            producer.send(KeyedMessage(topic07, bytes(1001)))
    settings = config(single07, producer_type="async", queue_size=5, queue_time=60_000)
    with Producer(settings) as producer, pytest.raises(QueueFull):
        for _ in range(10):
            producer.send(KeyedMessage(topic07, b"x"))
    until(lambda: count(single07, topic07) >= 6)


def test_acks_waits_until_broker_handled_message(single07, topic07):
    make_topic(single07, topic07, brokers=1)
    with (
        Producer(config(single07)) as written,
        Producer(config(single07, acks=1)) as taken,
        Producer(config(single07, acks=1, socket_timeout_ms=500)) as impatient,
    ):
        taken.send(KeyedMessage(topic07, b"taken"))
        single07.brokers[0].pause()
        try:
            written.send(KeyedMessage(topic07, b"only written"))
            with pytest.raises(ClientError, match="timed out"):
                impatient.send(KeyedMessage(topic07, b"not answered"))
        finally:
            single07.brokers[0].resume()
        until(lambda: count(single07, topic07) >= 3)
