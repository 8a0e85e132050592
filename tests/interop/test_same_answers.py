"""The same random requests to a genuine 0.8.2.2 broker and to ours: the same answers.

Requests and answers are laid out here by hand (version 0 of each API), so that nothing of ours
stands between the two. Left out is what we do otherwise on purpose: a set that ends in a damaged
entry is refused as a whole, where Kafka keeps what stands before it without a word; a name that no
topic may have gets error 17 as from 2.x on; and a group's unknown partitions are judged as there.
"""

import gzip
import random
import socket
import struct
import zlib
from pathlib import Path

import pytest

from tests.support import java_clients
from tests.support.brokers import MortalBroker
from tests.support.genuine_broker import GenuineBroker
from tests.support.process import wait_until

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
TOPICS = {"plain": 2, "other": 1, "packed": 1}
"""Topic → partitions. Only `packed` holds compressed sets: the two pack to different sizes, so a
limit in bytes cuts them at different places."""
UNKNOWN = "unknown"
SETTINGS = {
    "broker.id": "7",
    "auto.create.topics.enable": "false",
    "message.max.bytes": "20000",
    "log.segment.bytes": "100000",
}


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def message(key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    body = struct.pack(">bb", 0, attributes) + sized(key) + sized(value)
    return struct.pack(">I", zlib.crc32(body)) + body


def message_set(messages: list[bytes], offsets: list[int]) -> bytes:
    return b"".join(
        struct.pack(">q", offset) + sized(each)
        for offset, each in zip(offsets, messages, strict=True)
    )


class Reader:
    """Reads an answer from its beginning."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def bytes(self, form: str = ">i") -> bytes | None:
        size = self.number(form)
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at]

    def count(self) -> range:
        return range(self.number(">i"))


def entries(data: bytes) -> list[object]:
    """The entries of a message set: of compressed ones the inner messages, of cut ones the head."""
    found: list[object] = []
    at = 0
    while len(data) - at >= 12:
        offset, size = struct.unpack_from(">qi", data, at)
        body = data[at + 12 : at + 12 + size]
        if len(body) < size:
            return [*found, ("cut", offset, body[:4])]
        if body[5] & 7:
            (key_size,) = struct.unpack_from(">i", body, 6)
            packed = body[14 + max(0, key_size) :]
            found.append((offset, entries(gzip.decompress(packed))))
        else:
            found.append((offset, body))
        at += 12 + size
    return [*found, data[at:]] if at < len(data) else found


class Requests:
    """Random requests of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def next(self) -> tuple[int, bytes]:
        """An API key, and a request without its size."""
        pick = self.random.choice
        key = pick(
            [PRODUCE] * 4
            + [FETCH] * 5
            + [LIST_OFFSETS] * 2
            + [METADATA, OFFSET_COMMIT]
            + [OFFSET_FETCH]
        )
        body = {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            METADATA: lambda: array([string(name) for name in self.names()]),
            OFFSET_COMMIT: self.offset_commit,
            OFFSET_FETCH: self.offset_fetch,
        }[key]()
        head = struct.pack(">hhi", key, 0, self.random.getrandbits(30))
        return key, head + string(pick(["client", "", None])) + body

    def names(self) -> list[str]:
        pick = self.random.choice
        return list(
            dict.fromkeys(pick([*TOPICS, *TOPICS, UNKNOWN]) for _ in range(pick([1, 1, 3])))
        )

    def of_topics(self, partition, *, known: bool = False) -> bytes:
        pick = self.random.choice
        numbers = [0, 0, 0, 1] if known else [0, 0, 0, 1, 5, -1]
        return array(
            [
                string(name)
                + array(
                    [
                        struct.pack(">i", number) + partition(name)
                        for number in {
                            min(pick(numbers), TOPICS[name] - 1) if known else pick(numbers)
                            for _ in range(pick([1, 2]))
                        }
                    ]
                )
                for name in self.names()
                if not known or name in TOPICS
            ]
        )

    def produce(self) -> bytes:
        acks, timeout_ms = self.random.choice([1, 1, -1]), self.random.choice([0, 100, 1000])
        return struct.pack(">hi", acks, timeout_ms) + self.of_topics(
            lambda name: sized(self.record_set(packed=name == "packed"))
        )

    def record_set(self, *, packed: bool) -> bytes:
        pick = self.random.choice
        count = pick([1, 1, 2, 5])
        messages = [
            message(pick([None, b"", b"key"]), pick([None, b"", b"value", b"v" * 700]))
            for _ in range(count)
        ]
        if packed and pick([True, False]):
            inner = message_set(messages, list(range(count)))
            messages = [message(None, gzip.compress(inner, mtime=0), 1)]
        whole = message_set(messages, [pick([0, 5, -1]) for _ in messages])
        fate = self.random.random()
        if fate < 0.05:
            # a bit of the last message's CRC or content
            damaged = bytearray(whole)
            damaged[-self.random.randrange(1, 11)] ^= 1 << self.random.randrange(8)
            return bytes(damaged)
        if fate < 0.08:
            return b""
        if fate < 0.1:
            return message_set([message(None, b"too large" * 2500)], [0])
        return whole

    def fetch(self) -> bytes:
        pick = self.random.choice
        head = struct.pack(">iii", -1, pick([0, 1, 20]), pick([0, 0, 1, 100_000]))

        def partition(name: str) -> bytes:
            offset = pick([0, 0, 1, 2, 7, 30, 100, 1000, -1, 1 << 40])
            limit = pick([0, 1, 10, 26, 100, 1000, 5000, 1 << 20])
            return struct.pack(">qi", offset, 1 << 20 if name == "packed" else limit)

        return head + self.of_topics(partition)

    def list_offsets(self) -> bytes:
        pick = self.random.choice
        return struct.pack(">i", -1) + self.of_topics(
            lambda name: struct.pack(">qi", pick([-1, -2, 0, 1 << 50]), pick([0, 1, 2, 9]))
        )

    def offset_commit(self) -> bytes:
        pick = self.random.choice
        return string(pick(["g", "h"])) + self.of_topics(
            lambda name: (
                struct.pack(">q", self.random.randrange(99))
                + string(pick([None, "", "kept with it"]))
            ),
            known=True,
        )

    def offset_fetch(self) -> bytes:
        group = self.random.choice(["g", "h", "nobody"])
        return string(group) + self.of_topics(lambda name: b"", known=True)


def answer(key: int, data: bytes, port: int) -> object:
    """The content of an answer, whatever the order of its topics and partitions."""
    reader = Reader(data)
    reader.number(">i")
    content: dict[object, object] = {}
    if key == METADATA:
        for _ in reader.count():
            broker = reader.number(">i")
            content["broker", broker] = (reader.bytes(">h"), reader.number(">i") == port)
        for _ in reader.count():
            error, topic = reader.number(">h"), reader.bytes(">h")
            content[topic] = error
            for _ in reader.count():
                error, number = reader.number(">h"), reader.number(">i")
                leader = reader.number(">i")
                replicas, isr = (
                    [reader.number(">i") for _ in reader.count()] for _ in ("replicas", "isr")
                )
                content[topic, number] = (error, leader, replicas, isr)
    else:
        for _ in reader.count():
            topic = reader.bytes(">h")
            for _ in reader.count():
                number = reader.number(">i")
                content[topic, number] = partition_answer(key, reader)
    assert reader.at == len(data)
    return content


def partition_answer(key: int, reader: Reader) -> tuple[object, ...]:
    if key == PRODUCE:
        return reader.number(">h"), reader.number(">q")
    if key == FETCH:
        return reader.number(">h"), reader.number(">q"), entries(reader.bytes() or b"")
    if key == LIST_OFFSETS:
        return reader.number(">h"), [reader.number(">q") for _ in reader.count()]
    if key == OFFSET_COMMIT:
        return (reader.number(">h"),)
    return reader.number(">q"), reader.bytes(">h"), reader.number(">h")


class Peer:
    """A connection to one of the two."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), 20)

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(sized(request))
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def all_led(peer: Peer) -> bool:
    body = array([string(name) for name in TOPICS])
    data = peer.ask(struct.pack(">hhi", METADATA, 0, 1) + string("client") + body)
    content = answer(METADATA, data, peer.port)
    assert isinstance(content, dict)
    partitions = [each for name, each in content.items() if isinstance(name, tuple)]
    # the broker itself is one of them
    return len(partitions) == 1 + sum(TOPICS.values()) and all(
        each[0] in (0, b"127.0.0.1") for each in partitions
    )


@pytest.fixture
def peers(zookeeper, tmp_path: Path):
    trees = [f"{zookeeper.connect_string}/{tmp_path.name}-{which}" for which in ("kafka", "ours")]
    genuine = GenuineBroker(tmp_path, trees[0], tmp_path / "kafka", SETTINGS)
    ours = MortalBroker(
        tmp_path,
        {**SETTINGS, "zookeeper.connect": trees[1], "log.message.format.version": "0"},
    )
    try:
        genuine.start()
        ours.start()
        for tree in trees:
            for name, count in TOPICS.items():
                options = ["--topic", name, "--partitions", str(count), "--replication-factor", "1"]
                java_clients.run(
                    java_clients.tool_command(
                        "kafka.admin.TopicCommand", "--zookeeper", tree, "--create", *options
                    )
                )
        both = Peer(genuine.port), Peer(ours.address[1])
        for peer in both:
            assert wait_until(lambda peer=peer: all_led(peer), interval_s=0.1)
        yield both
    finally:
        ours.kill()
        genuine.kill()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))]
)
def test_genuine_broker_and_ours_give_same_responses(peers, seed) -> None:
    genuine, ours = peers
    requests = Requests(seed)
    for turn in range(2500):
        key, request = requests.next()
        theirs = answer(key, genuine.ask(request), genuine.port)
        assert answer(key, ours.ask(request), ours.port) == theirs, (turn, key, request)
