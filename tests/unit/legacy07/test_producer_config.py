"""Each property of the 0.7.2 producer: its default and its effect."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.legacy07.producer_config import Partitioner07, ProducerConfig07
from zkbroker.producer.partitioners import java_hash

# Of the description of 0.7.2: name, our field, default, another text with its value.
SHARED = [
    ("producer.type", "producer_type", "sync", "async", "async"),
    ("serializer.class", "encoder", "DefaultEncoder", "StringEncoder", "StringEncoder"),
    ("compression.codec", "compression_codec", "none", "2", "snappy"),
    ("connect.timeout.ms", "connect_timeout_ms", 5000, "10", 10),
    ("socket.timeout.ms", "request_timeout_ms", 30_000, "20", 20),
    ("buffer.size", "send_buffer_bytes", 102_400, "500", 500),
    ("queue.time", "linger_ms", 5000, "1", 1),
    ("queue.size", "queue_max_messages", 10_000, "6", 6),
    ("batch.size", "batch_messages", 200, "9", 9),
    ("event.handler", "event_handler", "", "a:B", "a:B"),
    ("event.handler.props", "event_handler_properties", "", "f", "f"),
    ("callback.handler", "callback_handler", "", "a:B", "a:B"),
    ("callback.handler.props", "callback_handler_properties", "", "f", "f"),
    ("acks", "required_acks", 0, "1", 1),
    ("request.required.acks", "required_acks", 0, "-1", -1),
    ("delivery.timeout.ms", "delivery_timeout_ms", 120_000, "7", 7),
]
OWN = [
    ("reconnect.interval", "reconnect_interval", 30_000, "3", 3),
    ("reconnect.time.interval.ms", "reconnect_time_ms", 10_000_000, "4", 4),
    ("max.message.size", "max_message_bytes", 1_000_000, "100", 100),
    ("partitioner.class", "partitioner", "", "a:B", "a:B"),
]


def parse(properties):
    return ProducerConfig07.from_properties({"zk.connect": "z:2181", **properties})


@pytest.mark.parametrize(("key", "name", "default", "text", "value"), SHARED)
def test_default_and_value_of_each_shared_property(key, name, default, text, value):
    assert getattr(parse({}).producer(), name) == default
    assert getattr(parse({key: text}).producer(), name) == value


@pytest.mark.parametrize(("key", "name", "default", "text", "value"), OWN)
def test_default_and_value_of_each_0_7_only_property(key, name, default, text, value):
    assert getattr(parse({}), name) == default
    assert getattr(parse({key: text}), name) == value


def test_retries_compression_and_timeout_apply_to_async_only():
    given = {"num.retries": "3", "compressed.topics": "a,b", "queue.enqueueTimeout.ms": "70"}
    sync, later = parse(given).producer(), parse({**given, "producer.type": "async"}).producer()
    assert (sync.retries, later.retries) == (0, 3)
    assert (sync.compressed_topics, later.compressed_topics) == ((), ("a", "b"))
    assert (sync.enqueue_timeout_ms, later.enqueue_timeout_ms) == (-1, 70)
    assert parse({"producer.type": "async"}).producer().enqueue_timeout_ms == 0


def test_batch_limit_leaves_room_for_wrapper():
    config = parse({"max.message.size": "1000"}).producer()
    assert config.batch_max_bytes < 1000 < config.max_request_bytes


def test_keys_are_encoded_only_for_named_partitioner():
    for own in ({}, {"partitioner.class": "kafka.producer.DefaultPartitioner"}):
        assert parse(own).named_partitioner == ""
        assert parse(own).producer().key_encoder == "NullEncoder"
    named = parse({"partitioner.class": "StickyPartitioner"})
    assert (named.named_partitioner, named.producer().key_encoder) == ("StickyPartitioner", "")


def test_exactly_one_way_to_find_brokers_is_required():
    listed = ProducerConfig07.from_properties({"broker.list": "3:a:9092, 7:b:9093"})
    assert listed.brokers() == {3: ("a", 9092), 7: ("b", 9093)}
    alone = ProducerConfig07.from_properties({"host": "a", "port": "6667"})
    assert alone.brokers() == {0: ("a", 6667)}
    for given, why in (
        ({}, "given: none"),
        ({"zk.connect": "z", "broker.list": "0:a:1"}, "zk.connect and broker.list"),
        ({"broker.list": "a:9092"}, "id:host:port"),
        ({"broker.list": "0:a:9092", "partitioner.class": "a:B"}, "needs zk.connect"),
        ({"host": "a"}, "needs port"),
        ({"zk.connect": "z", "compression.codec": "3"}, "compression.codec"),
    ):
        with pytest.raises(ConfigError, match=why):
            ProducerConfig07.from_properties(given)


def test_properties_without_effect_are_warned_of():
    warnings = []
    given = {"zk.connect": "z", "zk.read.num.retries": "3", "metadata.max.age.ms": "1"}
    ProducerConfig07.from_properties(given, warn=warnings.append)
    assert len(warnings) == 2


def test_keys_choose_by_java_hash_code_and_keyless_messages_at_random():
    partitioner = Partitioner07()
    for key in ("", "a", "10.0.0.7", b"bytes", 12, "Aa", "polygenelubricants"):
        wanted = 0 if java_hash(key) == -(2**31) else abs(java_hash(key))
        assert partitioner.partition(key, 7) == wanted % 7
    assert {partitioner.choose("t", [3, 5]) for _ in range(100)} == {3, 5}
