"""Invalid input: the broker logs it and lives, and other clients are not affected."""

import json
import random
import re
import socket
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.broker_requests import fetch, message_set, produce, values
from tests.support.brokers import connect, running_broker
from tests.support.mutations import mutated
from tests.support.process import eventually, resident_bytes
from zkbroker.protocol.messages import ApiVersionsRequest

MAX_REQUEST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def strict(zookeeper, tmp_path_factory):
    """A broker with small limits, and a topic `t` on it."""
    with running_broker(
        tmp_path_factory.mktemp("strict"),
        f"{zookeeper.connect_string}/strict",
        {
            "socket.request.max.bytes": str(MAX_REQUEST_BYTES),
            "socket.request.timeout.ms": "3000",
            "max.connections.per.ip": "200",
            "auto.create.topics.enable": "false",
            "log.retention.ms": "-1",
        },
        "t",
    ) as process:
        yield process


def client(process):
    return connect(process, "good")


def raw(process):
    connection = socket.create_connection(process.address, 20)
    connection.settimeout(20)
    return connection


def logged(process, pattern):
    """Wait for a line in the broker's log."""
    eventually(lambda: re.search(pattern, process.log_path.read_text()), pattern, timeout_s=20)


@pytest.fixture
def bystander(strict):
    """A connection of another client, which must work before and after the test."""
    with client(strict) as connection:
        yield connection
        stored = produce(connection, "t", message_set(2, [b"unharmed"]))
        assert stored.error_code == 0
        found = fetch(connection, "t", stored.base_offset)
        assert values(found, stored.base_offset) == [b"unharmed"]


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request, not a request of this protocol"),
        (
            (MAX_REQUEST_BYTES + 1).to_bytes(4, "big"),
            rf"frame length {MAX_REQUEST_BYTES + 1} is not within 0 to {MAX_REQUEST_BYTES}",
        ),
        (b"\x00\x00\x00\x02hi", "malformed request"),
        (
            b"\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x07\x00\x04evil\x00\x00",
            "client_id=evil.*malformed request: .*api_key=0 api_version=2",
        ),
        (
            b"\x00\x00\x00\x0e\x03\xe7\x00\x00\x00\x00\x00\x01\x00\x04evil",
            "not served: api_key=999 api_version=0 asked by client_id=evil",
        ),
    ],
)
def test_garbage_closes_the_connection_with_a_log_line(strict, bystander, sent, line):
    with raw(strict) as connection:
        peer = "{}:{}".format(*connection.getsockname())
        connection.sendall(sent)
        assert connection.recv(100) == b""
    logged(strict, f"connection closed peer={peer}.*({line})")


def test_partial_frame_times_out(strict, bystander):
    with raw(strict) as connection:
        connection.sendall((1000).to_bytes(4, "big") + b"half")
        assert connection.recv(100) == b""
    logged(strict, "timed out: part of a request")


def test_announced_frame_sizes_take_no_memory(strict, bystander):
    before = resident_bytes(strict.pid)
    connections = [raw(strict) for _ in range(100)]
    for connection in connections:
        connection.sendall(MAX_REQUEST_BYTES.to_bytes(4, "big") + bytes(1000))
    assert bystander.request(ApiVersionsRequest()).error_code == 0
    assert resident_bytes(strict.pid) - before < 50 << 20
    for connection in connections:
        connection.close()


def test_connections_above_the_limit_are_refused(strict, bystander):
    connections = [raw(strict) for _ in range(250)]
    logged(strict, r"connection refused peer=127\.0\.0\.1 limit=max\.connections\.per\.ip")
    for connection in connections:
        connection.close()


def golden_frames():
    data = Path(__file__).parent.parent / "golden" / "data" / "wire"
    return [
        bytes.fromhex(json.loads(line)["request"])
        for path in sorted(data.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def send_mutated(process, count, check):
    chance = random.Random(count)
    frames = golden_frames()
    connection = None
    for number in range(count):
        if connection is None:
            connection = socket.create_connection(process.address, 20)
            connection.settimeout(0.05)
        frame = mutated(chance.choice(frames), chance)
        try:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            # A response, the end of the connection, or nothing yet: all are fine.
            if number % 7 == 0 and not connection.recv(65536):
                raise ConnectionError
        except TimeoutError:
            pass
        except OSError:
            connection.close()
            connection = None
        if number % 500 == 0:
            check()
    if connection is not None:
        connection.close()


def fuzz(process, count):
    with client(process) as good:

        def check():
            stored = produce(good, "t", message_set(2, [b"between"]))
            assert stored.error_code == 0
            found = fetch(good, "t", stored.base_offset)
            assert values(found, stored.base_offset)[0] == b"between"

        send_mutated(process, count // 10, check)
        before = resident_bytes(process.pid)
        send_mutated(process, count, check)
        assert process.alive
        grown = resident_bytes(process.pid) - before
    assert grown < 30 << 20, f"{grown} bytes grown by {count} frames"
    assert "Traceback" not in process.log_path.read_text()


def test_mutated_frames_do_no_harm(strict, bystander):
    fuzz(strict, 1000)


@pytest.mark.soak
def test_10000_mutated_frames_do_no_harm(strict, bystander):
    fuzz(strict, soak.part_of(10_000))
