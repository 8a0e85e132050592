"""Invalid input of 0.7 clients ends their connections; other clients and the logs are unharmed."""

import random
import socket
import struct
import time

import pytest

from tests.support import soak
from tests.support.broker_requests import fetch, values
from tests.support.brokers import connect, running_broker
from tests.support.legacy07_server import Client07, Server07
from tests.support.mutations import mutated
from zkbroker.log.legacy07.lookup import ViewMap
from zkbroker.network.server.limits import Limits
from zkbroker.protocol.legacy07 import (
    Fetch07,
    MultiFetch07,
    MultiProduce07,
    Offsets07,
    Produce07,
    decode_answer,
    decode_offsets,
    encode_request,
)
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import (
    Limits07,
    build_message,
    build_wrapper,
    check_set,
)
from zkbroker.records.legacy07 import messages as messages_in
from zkbroker.registry.legacy07 import brokers
from zkbroker.zookeeper import ZkSession

MAX_REQUEST_BYTES = 2_000_000
CHECKS = Limits07(
    max_payload_bytes=1_000_000, max_decompressed_bytes=4_000_000, max_messages=10_000
)
SET = build_message(b"one") + build_wrapper(Codec.GZIP, build_message(b"two") * 3)
GOOD = [
    encode_request(each)
    for each in (
        Produce07("t", 0, SET),
        Produce07("t", -1, build_wrapper(Codec.SNAPPY, build_message(b"three", magic=0))),
        Fetch07("t", 0, 0, 1000),
        Fetch07("t", 0, 10**9, 1000),
        MultiFetch07((Fetch07("t", 0, 0, 100), Fetch07("u", 1, 0, 100), Fetch07("t", 9, 0, 9))),
        MultiProduce07((Produce07("t", 0, SET), Produce07("u", 1, SET))),
        Offsets07("t", 0, -1, 10),
        Offsets07("u", 1, 5, 10),
    )
]


@pytest.fixture
def server(tmp_path, request):
    """A server that closes idle connections after the seconds of a parameter, else after long."""
    limits = Limits(
        max_request_bytes=MAX_REQUEST_BYTES,
        max_frame_s=3.0,
        max_idle_s=getattr(request, "param", 600.0),
    )
    with Server07(
        tmp_path / "logs",
        limits=limits,
        checks=CHECKS,
        num_partitions=2,
        flush_messages=1,
        max_logs=50,
        file_bytes=100_000,
    ) as running:
        yield running


@pytest.fixture
def bystander(server):
    """A function that checks the connection of another client; it must work before and after."""
    client = server.connect()
    sent = build_message(b"unharmed")

    def works():
        client.send(encode_request(Produce07("bystander", 0, sent)))
        _, body = decode_answer(
            memoryview(client.ask(encode_request(Offsets07("bystander", 0, -1, 1))))
        )
        (end,) = decode_offsets(body)
        fetch = encode_request(Fetch07("bystander", 0, end - len(sent), 1000))
        assert client.ask(fetch) == b"\x00\x00" + sent

    works()
    yield works
    works()
    client.socket.close()


def fuzz(connect, seed, count):
    chosen = random.Random(seed)
    client = connect()
    probe = encode_request(Offsets07("t", 0, -2, 1))
    closed = 0
    for _ in range(count):
        frame = mutated(chosen.choice(GOOD), chosen)
        try:
            client.send(frame)
            client.send(probe)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        # Only whole frames are received until the end.
        answers = 0
        while client.receive() is not None:
            answers += 1
        closed += answers == 0
        assert answers <= 2
        client.socket.close()
        client = connect()
    client.socket.close()
    return closed


def test_mutated_frames_do_no_harm(server, bystander):
    closed = fuzz(server.connect, 1, 2000)
    assert 200 < closed < 1900
    assert_logs_are_whole(server)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_100000_mutated_frames_do_no_harm(server, bystander):
    # The other client must not become idle.
    for seed in soak.seeds(100, 500):
        fuzz(server.connect, seed, 200)
        bystander()
    assert_logs_are_whole(server)


def test_mutated_frames_do_no_harm_to_shared_topics(tmp_path, chroot):
    shared = chroot.rpartition("/")[2] + "-07"
    own = {
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.log.dir": str(tmp_path / "legacy"),
        "legacy07.zookeeper.chroot": f"/{shared}",
        "legacy07.logs.max": "12",
        "num.partitions": "2",
        "log.flush.interval": "1",
        "max.message.size": "1000000",
    }
    with running_broker(tmp_path, chroot, own) as process:
        with ZkSession(f"{chroot.partition('/')[0]}/{shared}") as session:
            address = brokers(session)[0]
        closed = fuzz(lambda: Client07(address), 7, 300)
        assert 20 < closed < 290
        with connect(process) as connection:
            for name in (each.name for each in sorted((tmp_path / "legacy").glob("*-[0-9]*"))):
                topic = name.rpartition("-")[0]
                view = ViewMap(tmp_path / "legacy" / name)
                newer = []
                while (
                    answer := fetch(connection, topic, len(newer), partition=view.partition)
                ) and (found := values(answer, len(newer))):
                    newer += found
                files = sorted((tmp_path / "legacy" / name).glob("*.kafka"))
                data = b"".join(path.read_bytes() for path in files)
                assert [each.payload for each in messages_in(data, 0)] == newer
                assert view.offset_at(len(data)) == len(newer)
        assert 4 <= len(list((tmp_path / "legacy").glob("*-[0-9]*"))) <= 12


def assert_logs_are_whole(server):
    """The stored messages are valid to the last byte, inside the wrappers too."""
    checked = 0
    for log in server.logs.all().values():
        data = b"".join(path.read_bytes() for path in log.files)
        limits = Limits07(max_decompressed_bytes=10**9, max_messages=10**7)
        assert check_set(data, limits).size == len(data)
        checked += len(data)
    assert checked


def test_decompression_bomb_closes_the_connection(server, bystander):
    bomb = build_wrapper(Codec.GZIP, build_message(bytes(20_000_000)))
    assert len(bomb) < 100_000
    many = build_wrapper(Codec.GZIP, build_message(b"") * 10_001)
    for messages in (bomb, build_wrapper(Codec.GZIP, bomb), SET + bomb, many):
        with server.connect() as client:
            assert client.ask(encode_request(Produce07("bombed", 0, messages))) is None
    assert server.logs.get("bombed", 0).end == 0


def test_number_of_logs_is_bounded(server, bystander):
    for number in range(60):
        with server.connect() as client:
            client.send(encode_request(Produce07(f"many{number}", 0, SET)))
            client.socket.shutdown(socket.SHUT_WR)
            client.read_to_the_end()
    assert len(server.logs.all()) == 50
    closed = sum(server.logs.get(f"many{number}", 0) is None for number in range(60))
    assert closed == 11  # one log is that of the bystander


@pytest.mark.parametrize(
    "start",
    [
        struct.pack(">i", MAX_REQUEST_BYTES + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["too long", "negative", "empty", "http"],
)
def test_invalid_frame_closes_the_connection_at_once(server, bystander, start):
    with server.connect() as client:
        client.socket.sendall(start)
        assert client.read_to_the_end() == b""


def test_unfinished_frame_times_out(server, bystander):
    with server.connect() as client:
        client.socket.sendall(struct.pack(">i", 1000) + b"\x00\x01")
        began = time.monotonic()
        bystander()
        assert client.read_to_the_end() == b""
        assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("server", [10.0], indirect=True)
def test_clients_that_do_not_read_are_closed_and_block_no_other(server, bystander):
    filler = build_message(bytes(900_000))
    with server.connect() as client:
        for _ in range(20):
            client.send(encode_request(Produce07("large", 0, filler)))
        assert client.ask(encode_request(Offsets07("large", 0, -2, 1))) is not None
    fetches = MultiFetch07(tuple(Fetch07("large", 0, 0, 2**31 - 1) for _ in range(1000)))
    silent = []
    for _ in range(10):
        peer = Client07(server.address)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.send(encode_request(fetches))
        silent.append(peer)
    bystander()
    deadline = time.monotonic() + 60
    while server.server.connections > 1:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        bystander()
    for peer in silent:
        peer.socket.close()


def test_multi_fetch_response_fits_into_a_frame(server, bystander):
    filler = build_message(bytes(900_000))
    with server.connect() as client:
        client.send(encode_request(Produce07("large", 1, filler)))
        fetches = MultiFetch07(tuple(Fetch07("large", 1, 0, 2**31 - 1) for _ in range(3000)))
        client.send(encode_request(fetches))
        (size,) = struct.unpack(">i", client.read(4))
        assert 2**31 - 1_000_000 < size < 2**31
        (error, first) = struct.unpack(">hi", client.read(6))
        assert (error, first) == (0, 2 + len(filler))


def test_fetch_of_negative_size_closes_the_connection(server, bystander):
    with server.connect() as client:
        client.send(encode_request(Produce07("t", 0, SET)))
        client.send(encode_request(Fetch07("t", 0, 0, -1)))
        client.send(encode_request(Fetch07("t", 0, 0, 100)))
        assert client.read_to_the_end() == struct.pack(">ih", 1, 0)
    with server.connect() as client:
        good, bad = Fetch07("t", 0, 0, 13), Fetch07("t", 0, 0, -5)
        client.send(encode_request(MultiFetch07((good, bad, good))))
        part = struct.pack(">ih", 2 + 13, 0) + SET[:13]
        announced = struct.pack(">ih", 2 + (6 + 13) + (6 - 5) + (6 + 13), 0)
        assert client.read_to_the_end() == announced + part + struct.pack(">ih", -3, 0)
