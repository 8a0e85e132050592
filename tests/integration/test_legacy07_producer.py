"""Our producer to a 0.7 cluster: partitions, codecs, queues, closed connections."""

import pytest

from tests.support.client07 import Broker07, broker_address, parse
from tests.support.cluster07 import OurMember07, cluster07, ends, make_topic
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
def test_keys_choose_among_partitions_of_all_brokers(tmp_path, chroot, tree, runtime):
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        names = ["0-0", "0-1", "1-0", "1-1"]
        expected = {name: [] for name in names}
        with Producer(config(tree, serializer_class="StringEncoder"), runtime=runtime) as producer:
            for n in range(60):
                key = f"key {n % 7}"
                place = producer.send(KeyedMessage("t", f"{n}", key=key))
                name = names[abs(java_hash(key)) % 4]
                assert (str(place.partition), place.offset) == (name, -1)
                expected[name].append(b"%d" % n)
        until(lambda: count(tree, "t") == 62)
        for name, bodies in stored(tree, "t").items():
            assert [m for m in bodies if not m.startswith(b"first")] == expected[name]


def test_keyless_messages_reach_all_partitions_and_new_topic_begins_at_partition_0(
    tmp_path, chroot, tree
):
    with cluster07(tmp_path, chroot, tree), Producer(config(tree)) as producer:
        for n in range(60):
            # Partition 0 of each broker, until the registry has more partitions.
            place = producer.send(KeyedMessage("new", b"%d" % n))
            if n == 0:
                assert place.partition in (Partition07(0, 0), Partition07(1, 0))
        until(lambda: tree.exists("/brokers/topics/new"))
        until(lambda: len(tree.get_children("/brokers/topics/new")) == 2)
        until(lambda: count(tree, "new") == 60)
        seen = set()

        def all_seen():
            seen.add(str(producer.send(KeyedMessage("new", b"x")).partition))
            return len(seen) == 4

        until(all_seen)
        place = producer.send(KeyedMessage("new", b"there", partition=Partition07(1, 1)))
        assert place.partition == Partition07(1, 1)
        with pytest.raises(ClientError, match="no partition 5-0: it has 4; give 0-0 to 1-1"):
            producer.send(KeyedMessage("new", b"there", partition=Partition07(5, 0)))


def test_listed_brokers_choose_partition(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        listed = ",".join(f"{n}:%s:%d" % broker_address(tree, n) for n in range(2))
        settings = ProducerConfig07.from_properties({"broker.list": listed})
        with Producer(settings) as producer:
            for n in range(200):
                producer.send(KeyedMessage("t", b"%03d" % n))
        until(lambda: count(tree, "t") == 202)
        assert all(stored(tree, "t").values())


@pytest.mark.parametrize("codec", ["0", "1", "2"])
def test_async_sets_are_in_order_and_listed_topics_are_compressed(tmp_path, chroot, tree, codec):
    with cluster07(tmp_path, chroot, tree, brokers=1, num_partitions=1):
        make_topic(tree, "t", brokers=1)
        make_topic(tree, "plain", brokers=1)
        start = ends(tree, "t")["0-0"]
        settings = config(
            tree,
            producer_type="async",
            compression_codec=codec,
            compressed_topics="t",
            queue_time="60000",
            batch_size="50",
        )
        with Producer(settings) as producer:
            for n in range(120):
                for topic in ("t", "plain"):
                    producer.send(KeyedMessage(topic, b"%03d" % n))
        reader = OurMember07(tree.connect_string, "g", {"t": 1, "plain": 1})
        until(lambda: len(reader.messages) == 242)
        for topic in ("t", "plain"):
            bodies = [m.value for m in reader.messages if m.topic == topic]
            assert bodies[1:] == [b"%03d" % n for n in range(120)]
        reader.close()
        log = tmp_path / "b0" / "legacy" / "t-0" / f"{0:020d}.kafka"
        attributes = [each.attributes for each in entries(log.read_bytes()[start:])]
        assert attributes == ([0] * 120 if codec == "0" else [int(codec)] * 3)
        log = tmp_path / "b0" / "legacy" / "plain-0" / f"{0:020d}.kafka"
        assert {each.attributes for each in entries(log.read_bytes())} == {0}


def test_stopped_broker_is_left_out_and_used_after_restart(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree) as brokers:
        first = make_topic(tree, "t")
        settings = config(tree, producer_type="async", num_retries=50, queue_time="5")
        with Producer(settings) as producer:
            sent = [b"%04d" % n for n in range(300)]
            for body in sent[:100]:
                producer.send(KeyedMessage("t", body))
            producer.flush()
            # Messages written to a killed broker may be lost without an error.
            until(lambda: count(tree, "t") == 102)
            brokers[1].kill()
            until(lambda: tree.get_children("/brokers/ids") == ["0"])
            until(lambda: set(ends(tree, "t")) == {"0-0", "0-1"})
            # A message keeps its chosen partition, so the producer must know of the broker, too.
            until(lambda: set(producer._cluster.brokers()) == {0})
            for body in sent[100:200]:
                producer.send(KeyedMessage("t", body))
            producer.flush()
            brokers[1].start()
            until(lambda: len(ends(tree, "t")) == 4)
            places = {
                str(producer.send(KeyedMessage("t", body)).result(20).partition)
                for body in sent[200:]
            }
            producer.flush()
            assert places == {"0-0", "0-1", "1-0", "1-1"}
        until(lambda: count(tree, "t") == 302)
        bodies = [each for found in stored(tree, "t").values() for each in found]
        assert sorted(bodies) == sorted([*first, *sent])


def test_closed_connection_is_detected_before_next_write(tmp_path, chroot, tree, caplog):
    with cluster07(tmp_path, chroot, tree, brokers=1, num_partitions=1) as brokers:
        make_topic(tree, "t", brokers=1)
        host, port = broker_address(tree, 0)
        with Producer(ProducerConfig07(host=host, port=port)) as producer:
            producer.send(KeyedMessage("t", b"before"))
            until(lambda: count(tree, "t") == 2)
            # A broker of 0.7 closes the connection for an invalid topic, without a response.
            producer.send(KeyedMessage("bad/topic", b"lost"))
            until(lambda: producer.send(KeyedMessage("t", b"after")) and count(tree, "t") > 2)
        assert "closed by the broker" in caplog.text
        assert brokers[0].alive


def test_connection_is_replaced_after_reconnect_interval(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree, brokers=1, num_partitions=1):
        make_topic(tree, "t", brokers=1)
        with Producer(config(tree, reconnect_interval=2)) as producer:
            for n in range(7):
                producer.send(KeyedMessage("t", b"%d" % n))
            channel = producer._sender._dispatcher._channels[0]
            assert channel._requests == 1
        until(lambda: count(tree, "t") == 8)


def test_too_large_message_and_full_queue_are_refused(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree, brokers=1):
        with Producer(config(tree, max_message_size=1000)) as producer:
            producer.send(KeyedMessage("t", bytes(1000)))
            with pytest.raises(MessageTooLarge):
                producer.send(KeyedMessage("t", bytes(1001)))
        settings = config(tree, producer_type="async", queue_size=5, queue_time=60_000)
        with Producer(settings) as producer, pytest.raises(QueueFull):
            for _ in range(10):
                producer.send(KeyedMessage("t", b"x"))
        until(lambda: count(tree, "t") >= 6)


def test_acks_waits_until_broker_handled_message(tmp_path, chroot, tree):
    settings = {"socket_timeout_ms": 500, "serializer_class": "StringEncoder"}
    with cluster07(tmp_path, chroot, tree, brokers=1) as (broker,):
        make_topic(tree, "t", brokers=1)
        with (
            Producer(config(tree, **settings)) as written,
            Producer(config(tree, acks=1, **settings)) as taken,
        ):
            taken.send(KeyedMessage("t", "taken"))
            broker.pause()
            try:
                written.send(KeyedMessage("t", "only written"))
                with pytest.raises(ClientError, match="timed out"):
                    taken.send(KeyedMessage("t", "not answered"))
            finally:
                broker.resume()
            until(lambda: count(tree, "t") >= 3)
