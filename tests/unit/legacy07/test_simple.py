"""The simple consumer of Kafka 0.7 against a listener: messages, positions, sizes, errors."""

import os
import socket
import threading

import pytest

from tests.support.legacy07 import readings, same_payload, unpack
from tests.support.legacy07_server import Server07
from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    MessageSizeTooLarge,
    NetworkError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from zkbroker.legacy07 import SimpleConsumer07
from zkbroker.protocol.legacy07 import Produce07, encode_request
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper

WRAPPER = build_wrapper(Codec.GZIP, build_message(b"two") + build_message(b"three"))
ONE = build_message(b"one")


@pytest.fixture
def server(tmp_path):
    with Server07(tmp_path, flush_messages=1) as running:
        yield running


@pytest.fixture
def consumer(server):
    with SimpleConsumer07(*server.address, socket_timeout_ms=10_000, fetch_bytes=100) as consumer:
        yield consumer


def put(server, topic, data):
    with server.connect() as client:
        client.send(encode_request(Produce07(topic, 0, data)))
        client.socket.shutdown(socket.SHUT_WR)
        client.read_to_the_end()


def payloads(found):
    return [message.payload for message in found.messages]


def test_fetch_reads_log_to_its_end(server, consumer):
    put(server, "t", (ONE + WRAPPER) * 20)
    offset, found = 0, []
    while True:
        got = consumer.fetch("t", 0, offset)
        if not got.messages:
            break
        found += payloads(got)
        offset = got.next_offset
    assert found == [b"one", b"two", b"three"] * 20
    assert consumer.offsets("t", 0) == [offset]
    assert consumer.offsets("t", 0, -2) == [0]


def test_position_inside_wrapper_repeats_wrapper(server, consumer):
    put(server, "t", ONE + WRAPPER)
    found = consumer.fetch("t", 0, 0).messages
    assert [m.next_offset for m in found] == [len(ONE), len(ONE), len(ONE + WRAPPER)]
    assert payloads(consumer.fetch("t", 0, found[1].next_offset)) == [b"two", b"three"]


def test_fetch_size_grows_for_large_message(server):
    put(server, "t", build_message(bytes(5000)) + ONE)
    with SimpleConsumer07(*server.address, fetch_bytes=10) as consumer:
        assert payloads(consumer.fetch("t", 0, 0))[0] == bytes(5000)
    with (
        SimpleConsumer07(*server.address, fetch_bytes=10, max_fetch_bytes=4000) as consumer,
        pytest.raises(MessageSizeTooLarge, match="max_fetch_bytes=4000"),
    ):
        consumer.fetch("t", 0, 0)


def test_error_of_one_partition_leaves_others(server, consumer):
    put(server, "t", ONE)
    good, beyond, wrong = consumer.multifetch([("t", 0, 0), ("t", 0, 99), ("t", 5, 0)])
    assert payloads(good) == [b"one"]
    assert isinstance(beyond.error, OffsetOutOfRange)
    assert isinstance(wrong.error, UnknownTopicOrPartition)
    with pytest.raises(OffsetOutOfRange):
        consumer.fetch("t", 0, 99)
    assert consumer.multifetch([]) == []


def test_connection_closed_by_broker_raises_network_error_and_next_request_reconnects(
    server, consumer
):
    with pytest.raises(NetworkError, match="closed the connection"):
        consumer.offsets("t", 5)
    put(server, "t", ONE)
    assert payloads(consumer.fetch("t", 0, 0)) == [b"one"]
    consumer.close()
    with pytest.raises(ClientError, match="closed"):
        consumer.fetch("t", 0, 0)


def test_corrupt_entry_is_reported_at_its_position(server, consumer, tmp_path):
    put(server, "t", ONE + WRAPPER + ONE)
    path = tmp_path / "t-0" / f"{0:020d}.kafka"
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"?", len(ONE) + 20)
    before = consumer.fetch("t", 0, 0)
    assert (payloads(before), before.next_offset) == ([b"one"], len(ONE))
    with pytest.raises(CorruptMessage):
        consumer.fetch("t", 0, before.next_offset)
    assert payloads(consumer.fetch("t", 0, len(ONE + WRAPPER))) == [b"one"]


def test_silent_broker_times_out():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        consumer = SimpleConsumer07(*silent.getsockname(), socket_timeout_ms=200)
        with pytest.raises(NetworkError):
            consumer.fetch("t", 0, 0)


def test_response_with_wrong_number_of_fetches_is_refused():
    def answer(listening):
        connection, _ = listening.accept()
        connection.recv(1000)
        connection.sendall(b"\x00\x00\x00\x02\x00\x00")
        connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        with (
            SimpleConsumer07(*listening.getsockname(), socket_timeout_ms=5000) as consumer,
            pytest.raises(NetworkError, match="0 of 1 fetches"),
        ):
            consumer.fetch("t", 0, 0)


def test_genuine_logs_read_like_java_consumer(tmp_path):
    (reading,) = [each for each in readings("segments") if len(each.fetches) == 54]
    with (
        Server07(unpack(tmp_path, "kafka-0.7.2-more/clean-stop")) as server,
        SimpleConsumer07(*server.address, fetch_bytes=300) as consumer,
    ):
        for fetch in reading.fetches:
            found = consumer.fetch(reading.topic, reading.partition, fetch.offset)
            assert found.next_offset == fetch.offset + fetch.valid
            rows = [(m.next_offset, m.magic, m.crc) for m in found.messages]
            assert rows == [row[:3] for row in fetch.messages]
            assert all(
                same_payload(row[3], m.payload)
                for row, m in zip(fetch.messages, found.messages, strict=True)
            )


def test_fetch_bytes_above_limit_are_refused(server):
    with pytest.raises(ClientError, match="fetch_bytes"):
        SimpleConsumer07(*server.address, fetch_bytes=10, max_fetch_bytes=5)
