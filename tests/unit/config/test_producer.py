"""Producer settings: unmodified files of every generation, and invalid ones."""

import logging

import pytest

from zkbroker.config import parse_properties
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError

FILE_0_7 = """
# producer.properties of 0.7
broker.list=0:localhost:9092,1:other:9093
producer.type=async
compression.codec=1
compressed.topics=a, b
serializer.class=kafka.serializer.StringEncoder
queue.time=500
queue.size=2000
queue.enqueueTimeout.ms=0
batch.size=50
num.retries=7
zk.read.num.retries=3
buffer.size=65536
connect.timeout.ms=1234
socket.timeout.ms=4321
reconnect.interval=30000
reconnect.time.interval.ms=10000
max.message.size=1000000
"""
FILE_0_7_ZOOKEEPER = """
zk.connect=localhost:2181/chroot
zk.sessiontimeout.ms=7000
zk.connectiontimeout.ms=8000
zk.synctime.ms=2000
partitioner.class=kafka.producer.DefaultPartitioner
event.handler=my.handlers:Events
event.handler.props=events.properties
callback.handler=my.handlers:Callbacks
callback.handler.props=callbacks.properties
"""
FILE_0_8 = """
metadata.broker.list=b1:9092,b2:9092
request.required.acks=-1
request.timeout.ms=1500
producer.type=async
serializer.class=kafka.serializer.DefaultEncoder
key.serializer.class=kafka.serializer.StringEncoder
partitioner.class=kafka.producer.ByteArrayPartitioner
compression.codec=snappy
message.send.max.retries=5
retry.backoff.ms=250
topic.metadata.refresh.interval.ms=60000
queue.buffering.max.ms=100
queue.buffering.max.messages=500
queue.enqueue.timeout.ms=2000
batch.num.messages=20
send.buffer.bytes=1000
client.id=me
"""
FILE_JAVA = """
bootstrap.servers=b1:9092
acks=all
retries=2
batch.size=16384
linger.ms=1
buffer.memory=33554432
compression.type=lz4
max.block.ms=60000
max.request.size=1048576
delivery.timeout.ms=30000
enable.idempotence=true
max.in.flight.requests.per.connection=5
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.ByteArraySerializer
"""


def load(text: str) -> ProducerConfig:
    return ProducerConfig.from_properties(parse_properties(text))


@pytest.fixture(autouse=True)
def no_unknown_keys(caplog):
    yield
    assert not [r for r in caplog.records if "unknown" in r.getMessage()]


def test_0_7_file_with_broker_list():
    config = load(FILE_0_7)
    assert config.broker_list == ("localhost:9092", "other:9093")
    assert config.producer_type == "async"
    assert config.compression_codec == "gzip"
    assert config.compresses("a")
    assert not config.compresses("c")
    assert (config.linger_ms, config.queue_max_messages, config.enqueue_timeout_ms) == (
        500,
        2000,
        0,
    )
    assert (config.batch_messages, config.retries) == (50, 7)
    assert (config.send_buffer_bytes, config.connect_timeout_ms) == (65536, 1234)
    assert config.request_timeout_ms == 4321
    assert config.max_request_bytes == 1_000_000


def test_0_7_file_with_zookeeper_and_handlers():
    config = load(FILE_0_7_ZOOKEEPER)
    assert config.zookeeper_connect == "localhost:2181/chroot"
    assert config.zookeeper_session_timeout_ms == 7000
    assert config.zookeeper_connect_timeout_ms == 8000
    assert config.event_handler == "my.handlers:Events"
    assert config.event_handler_properties == "events.properties"
    assert config.callback_handler_properties == "callbacks.properties"


def test_0_8_file():
    config = load(FILE_0_8)
    assert config.broker_list == ("b1:9092", "b2:9092")
    assert config.required_acks == -1
    assert config.request_timeout_ms == 1500
    assert config.compression_codec == "snappy"
    assert (config.retries, config.retry_backoff_ms) == (5, 250)
    assert (config.linger_ms, config.queue_max_messages) == (100, 500)
    assert (config.enqueue_timeout_ms, config.batch_messages) == (2000, 20)
    assert config.metadata_max_age_ms == 60000
    assert config.client_id == "me"


def test_java_file_gives_batch_size_in_bytes():
    config = load(FILE_JAVA)
    assert config.batch_max_bytes == 16384
    assert config.batch_messages is None
    assert config.required_acks == -1
    assert config.idempotence
    assert config.queue_max_bytes == 33554432
    assert config.compression_codec == "lz4"


def test_idempotence_has_unlimited_retries_by_default():
    assert load("broker.list=b:1\nenable.idempotence=true").retries == 2**31 - 1
    assert load("broker.list=b:1\nenable.idempotence=true\nretries=4").retries == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("producer.type=sync", "no way to find brokers"),
        ("zk.connect=a:1\nbroker.list=0:b:2", "both set"),
        ("broker.list=nonsense", "host:port"),
        ("broker.list=h:70000", "host:port"),
        ("broker.list=b:1\nproducer.type=later", "sync, async"),
        ("broker.list=b:1\nacks=2", "0, 1, -1 or all"),
        ("broker.list=b:1\ncompression.codec=rar", "gzip"),
        ("broker.list=b:1\nqueue.size=0", "from 1"),
        ("broker.list=b:1\nenable.idempotence=true\nacks=0", "request.required.acks"),
        ("broker.list=b:1\nenable.idempotence=true\nmessage.format=1", "message.format"),
        (
            "broker.list=b:1\nenable.idempotence=true\nmax.in.flight.requests.per.connection=6",
            "5 or fewer",
        ),
        ("broker.address=a:1,b:2", "one address"),
    ],
)
def test_invalid_file_is_refused_with_hint(text, message):
    with pytest.raises(ConfigError, match=message):
        load(text)


def test_broker_list_overrides_zookeeper_as_in_0_8(caplog):
    with caplog.at_level(logging.WARNING):
        config = load("metadata.broker.list=b:1\nzookeeper.connect=z:2181")
    assert config.zookeeper_connect == ""
    assert "zookeeper.connect has no effect" in caplog.text


@pytest.mark.parametrize(
    ("lines", "full", "limit"),
    [
        ("producer.type=async", 200, 2**31 - 1),
        ("producer.type=async\nbatch.size=50", 50, 50),
        ("producer.type=async\nbatch.num.messages=1", 1, 1),
        ("producer.type=sync\nbatch.num.messages=50", 50, 2**31 - 1),
    ],
)
def test_batch_size_limits_async_batches(lines, full, limit):
    config = load(f"broker.list=b:1\n{lines}")
    assert (config.batch_full_messages, config.batch_limit_messages) == (full, limit)


@pytest.mark.parametrize("text", ["-1", "all", "ALL"])
def test_acks_all_has_two_spellings(text):
    assert load(f"broker.list=b:1\nacks={text}").required_acks == -1


def test_leader_wait_is_request_timeout_without_retries():
    assert load("broker.list=b:1\nrequest.timeout.ms=7000").leader_wait_ms == 7000
    assert load("broker.list=b:1\nretries=3").leader_wait_ms == 0
