"""The simple consumer against a real broker."""

from collections.abc import Iterator

import pytest

from tests.support.producing import TestProducer
from zkbroker.cluster.process import BrokerProcess
from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, SimpleConsumer
from zkbroker.errors import (
    NetworkError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from zkbroker.records import Codec


@pytest.fixture
def producer(broker: BrokerProcess) -> Iterator[TestProducer]:
    host, port = broker.address
    sender = TestProducer(f"{host}:{port}")
    yield sender
    sender.close()


@pytest.fixture(params=["threads", "gevent"])
def consumer(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(*broker.address, runtime=str(request.param), client_id="test") as simple:
        yield simple


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_messages_of_every_magic_and_codec_are_fetched(
    consumer: SimpleConsumer, producer: TestProducer, topic: str, magic: int, codec: Codec
) -> None:
    producer.send(topic, 0, [b"a", None, b"c"], magic=magic, codec=codec)
    producer.send(topic, 0, [b"d", b"e"], magic=magic, codec=codec)
    found = consumer.fetch(FetchRequest(topic, 0, 1))
    assert [(m.offset, m.key, m.value) for m in found] == [
        (1, b"key-1", None),
        (2, b"key-2", b"c"),
        (3, b"key-0", b"d"),
        (4, b"key-1", b"e"),
    ]
    assert (found.next_offset, found.high_watermark) == (5, 5)
    assert list(found) == list(found)


def test_fetch_at_log_end_is_empty_and_keeps_offset(
    consumer: SimpleConsumer, producer: TestProducer, topic: str
) -> None:
    producer.send(topic, 0, [b"a"])
    found = consumer.fetch(FetchRequest(topic, 0, 1))
    assert list(found) == []
    assert (found.next_offset, found.high_watermark) == (1, 1)


def test_out_of_range_error_has_log_range(
    consumer: SimpleConsumer, producer: TestProducer, topic: str
) -> None:
    producer.send(topic, 0, [b"a", b"b"])
    with pytest.raises(OffsetOutOfRange, match="0 to 2") as raised:
        consumer.fetch(FetchRequest(topic, 0, 3))
    assert (raised.value.earliest, raised.value.latest) == (0, 2)


def test_multifetch_keeps_request_order(
    consumer: SimpleConsumer, producer: TestProducer, topic: str
) -> None:
    producer.send(topic, 0, [b"a", b"b", b"c"])
    requests = [
        FetchRequest(topic, 0, 2),
        FetchRequest("no-such-topic-here", 7, 0),
        FetchRequest(topic, 0, 0),
        FetchRequest(topic, 0, 99),
    ]
    found = consumer.multifetch(requests)
    assert [m.value for m in found[0]] == [b"c"]
    assert [m.value for m in found[2]] == [b"a", b"b", b"c"]
    with pytest.raises(UnknownTopicOrPartition):
        list(found[1])
    with pytest.raises(OffsetOutOfRange):
        list(found[3])


LEVELS = [(0, 0), (2, 1), (None, 2)]
"""Version of the fetch, magic of the message: the first two get a cut message at first."""


@pytest.mark.parametrize(("fetch_version", "magic"), LEVELS)
def test_fetch_size_is_doubled_for_large_message(
    broker: BrokerProcess,
    producer: TestProducer,
    topic: str,
    fetch_version: int | None,
    magic: int,
) -> None:
    producer.send(topic, 0, [b"x" * 50_000], magic=magic)
    with SimpleConsumer(*broker.address, fetch_version=fetch_version) as simple:
        (message,) = simple.fetch(FetchRequest(topic, 0, 0, max_bytes=1000))
        assert message.value == b"x" * 50_000


def test_offsets_are_found_by_time(
    consumer: SimpleConsumer, producer: TestProducer, topic: str
) -> None:
    producer.send(topic, 0, [b"a", b"b", b"c"], timestamp_ms=1000)
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 10) == [3, 0]
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 1) == [3]
    assert consumer.get_offsets_before(topic, 0, EARLIEST_TIME, 10) == [0]
    assert consumer.offset_for_time(topic, 0, 1001) == 1
    assert consumer.offset_for_time(topic, 0, 2000) is None
    with pytest.raises(UnknownTopicOrPartition):
        consumer.get_offsets_before("no-such-topic-here", 7, LATEST_TIME, 1)


def test_lost_connection_is_reopened(
    consumer: SimpleConsumer, producer: TestProducer, topic: str
) -> None:
    producer.send(topic, 0, [b"a"])
    assert len(list(consumer.fetch(FetchRequest(topic, 0, 0)))) == 1
    assert consumer._connection is not None
    consumer._connection.close(NetworkError("cut"))
    assert len(list(consumer.fetch(FetchRequest(topic, 0, 0)))) == 1


def test_error_names_unreachable_broker(consumer: SimpleConsumer) -> None:
    with (
        SimpleConsumer("127.0.0.1", 1) as unreachable,
        pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"),
    ):
        unreachable.fetch(FetchRequest("t", 0, 0))
