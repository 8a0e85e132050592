"""Many connections and slow ones: memory is bounded, and slow clients delay only themselves."""

import socket
import threading
from pathlib import Path

import pytest

from tests.support.broker_requests import fetch, fetch_request, message_set, produce
from tests.support.brokers import connect, running_broker
from tests.support.process import eventually, resident_bytes
from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import ApiVersionsRequest

IDLE = 1000
BUSY = 50


@pytest.fixture
def process(zookeeper, chroot, tmp_path):
    settings = {"log.retention.ms": "-1", "max.connections": "1200"}
    with running_broker(tmp_path, chroot, settings, "t") as broker:
        yield broker


def resident_mb(process):
    return resident_bytes(process.pid) / 2**20


def test_1000_idle_and_50_busy_connections_bound_memory(process):
    with connect(process) as warm:
        produce(warm, "t", message_set(2, [b"x" * 1000]))
        idle = [socket.create_connection(process.address, 20) for _ in range(IDLE)]
        errors = []

        def work():
            with connect(process) as connection:
                for _ in range(20):
                    answer = produce(connection, "t", message_set(2, [b"x" * 1000]))
                    errors.append(answer.error_code)

        busy = [threading.Thread(target=work) for _ in range(BUSY)]
        for thread in busy:
            thread.start()
        for thread in busy:
            thread.join(100)
        after = resident_mb(process)
        for connection in idle[:10]:
            # An idle connection still works.
            request = encode_request(RequestHeader(18, 0, 1, None), ApiVersionsRequest())
            connection.sendall(b"".join(request))
            assert len(connection.recv(1000)) > 50
        for connection in idle:
            connection.close()
    assert errors == [0] * BUSY * 20
    assert after < 100, "a broker stays below 100 MB"


def fill(connection, data):
    for _ in range(20):
        assert produce(connection, "t", data).error_code == 0


def slow_reader(process, request):
    """A connection that has sent a request and buffers next to nothing of the response."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(process.address)
    reader.settimeout(60)
    reader.sendall(b"".join(request))
    return reader


def test_slow_readers_delay_no_other_and_hold_no_memory(process):
    with connect(process) as connection:
        fill(connection, message_set(2, [b"x" * 900_000]))
        request = encode_request(
            RequestHeader(1, 4, 1, "slow"), fetch_request("t", 0, max_bytes=15_000_000)
        )
        before = resident_mb(process)
        slow = []
        for _ in range(20):
            reader = slow_reader(process, request)
            assert len(reader.recv(1)) == 1
            slow.append(reader)
        for _ in range(20):
            for reader in slow:
                assert len(reader.recv(1)) == 1
            found = fetch(connection, "t", 0, max_bytes=5_000_000)
            assert len(found.records) == 5_000_000
            assert produce(connection, "t", message_set(2, [b"quick"])).error_code == 0
        assert resident_mb(process) - before < 30
        for reader in slow:
            reader.close()


def test_memory_for_unread_down_conversions_is_bounded(process):
    with connect(process) as connection:
        fill(connection, message_set(2, [b"x" * 1000] * 900))
        request = encode_request(
            RequestHeader(1, 0, 1, "old"), fetch_request("t", 0, max_bytes=18_000_000)
        )
        before = resident_mb(process)
        readers = [slow_reader(process, request) for _ in range(40)]
        for reader in readers:
            assert len(reader.recv(1)) == 1
        # Each asked for 18 MB: 720 together.
        assert resident_mb(process) - before < 200
        assert produce(connection, "t", message_set(2, [b"quick"])).error_code == 0
        for reader in readers:
            reader.close()


def test_long_poll_ends_with_its_client(process):
    def descriptors():
        return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))

    with connect(process) as connection:
        end = produce(connection, "t", message_set(2, [b"x"])).base_offset + 1
        before = descriptors()
        waiting = fetch_request("t", end)
        waiting.max_wait_ms, waiting.min_bytes = 2**31 - 1, 1
        request = encode_request(RequestHeader(1, 4, 1, "gone"), waiting)
        for _ in range(50):
            with socket.create_connection(process.address, 20) as poller:
                poller.sendall(b"".join(request))
        eventually(lambda: descriptors() <= before, "descriptors are closed", timeout_s=30)
