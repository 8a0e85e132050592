"""Prebuilt requests, and a plain socket that sends them.

So the client's cost is the same for every server, and close to nothing.
"""

import socket

from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import FetchRequest, ProduceRequest
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import MessageSetBuilder

WINDOW = 5
TIME_MS = 1_500_000_000_000
PRODUCE_VERSIONS = {0: 0, 1: 2, 2: 7}
"""Magic → version of Produce that carries it."""
FETCH_VERSIONS = {0: 0, 1: 2, 2: 10}
"""Magic → version of Fetch that returns it unconverted."""


def one_message(magic: int, size: int) -> bytes:
    """A set of one message, with a value of so many bytes."""
    builder = MessageSetBuilder(magic)
    builder.append(None, b"x" * size, timestamp_ms=TIME_MS)
    return builder.build()


def record_set(magic: int, size: int) -> bytes:
    """A set of 100-byte values that is about `size` bytes long."""
    count = 1
    while True:
        builder = MessageSetBuilder(magic)
        for number in range(count):
            builder.append(b"%08d" % number, b"x" * 100, timestamp_ms=TIME_MS)
        data = builder.build()
        if len(data) >= size * 0.97:
            return data
        count = max(count + 1, int(count * size / len(data)))


def produce_request(
    topic: str, magic: int, records: bytes, partition: int = 0, acks: int = 1
) -> bytes:
    """A Produce with one set for one partition, framed."""
    placed = ProduceRequestTopic(topic, [ProduceRequestPartition(partition, records)])
    request = ProduceRequest(acks=acks, topics=[placed])
    header = RequestHeader(0, PRODUCE_VERSIONS[magic], 1, "bench")
    return b"".join(encode_request(header, request))  # type: ignore[arg-type]


def fetch_request(
    topic: str, magic: int, offset: int = 0, max_bytes: int = 1 << 20, wait_ms: int = 0
) -> bytes:
    """A Fetch from one partition, framed."""
    partition = FetchRequestPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        max_bytes=max_bytes,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchRequestTopic(topic, [partition])]
    )
    header = RequestHeader(1, FETCH_VERSIONS[magic], 1, "bench")
    return b"".join(encode_request(header, request))  # type: ignore[arg-type]


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 << 20)

    def answer(self) -> int:
        """Read the next answer into the buffer; returns its bytes."""
        view = memoryview(self.buffer)
        self._receive(view[:4])
        size = int.from_bytes(self.buffer[:4], "big")
        self._receive(view[:size])
        return size

    def _receive(self, view: memoryview) -> None:
        have = 0
        while have < len(view):
            count = self.socket.recv_into(view[have:])
            if not count:
                raise ConnectionError("the server closed the connection")
            have += count
