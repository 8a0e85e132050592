"""Our segment files and our answers, read by the record classes of genuine Kafka.

Every magic with every codec, as sent and converted by a pinned topic. The genuine classes verify
the checksums; what they read is compared record for record.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import java_clients
from tests.support.brokers import running_broker
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest, ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic, TopicConfig
from zkbroker.records import Codec, encode_message_set
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

VERSIONS = java_clients.versions()
pytestmark = pytest.mark.skipif(not VERSIONS, reason=java_clients.REASON)

START_MS = 1_600_000_000_000
NAMES = ["none", "gzip", "snappy", "lz4", "zstd"]
CASES = [
    (magic, Codec(codec), pinned)
    for magic in (0, 1, 2)
    for codec in range(5 if magic == 2 else 4)
    for pinned in [None, *([0, 1] if magic == 2 and codec < 4 else [])]
]
VERSION_OF_MAGIC = ("0.9.0", "0.10.2", "2.1")
BATCHES = 3

Expected = dict[tuple[int, Codec, int | None], list[list[str]]]


def records(magic: int, number: int) -> list[Any]:
    """Records of a batch: null, empty, binary and long ones; headers from magic 2 on."""
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (None, b"no key"),
        (b"", b""),
        (b"tombstone", None),
        (bytes(range(256)), b"\x00\xff" * 700),
        (f"ключ {number}".encode(), b"repeated " * 100),
    ]
    headers = (("name", b"\x00value"), ("nothing", None)) if magic == 2 else ()
    stamp = START_MS + number * 1000
    return [
        (key, value, -1 if magic == 0 else stamp + 7 * i, headers if i % 2 else ())
        for i, (key, value) in enumerate(pairs)
    ]


def lines(magic: int, first_offset: int, batch: list[Any]) -> list[list[str]]:
    """The same as the Java programs print it."""

    def text(data: bytes | None) -> str:
        return "null" if data is None else data.hex()

    return [
        [
            "record",
            str(first_offset + i),
            str(stamp if magic else -1),
            text(key),
            text(value),
            ",".join(f"{n}={text(v)}" for n, v in headers) if magic == 2 else "",
        ]
        for i, (key, value, stamp, headers) in enumerate(batch)
    ]


def topic_of(magic: int, codec: Codec, pinned: int | None) -> str:
    return f"magic-{magic}-{NAMES[codec]}-{'as-sent' if pinned is None else f'pinned-{pinned}'}"


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    with running_broker(
        tmp_path_factory.mktemp("java-segments"),
        f"{zookeeper.connect_string}/segments-{uuid.uuid4().hex[:8]}",
        # The records bear the time of 2020.
        {"log.retention.ms": "-1"},
    ) as process:
        yield process


@pytest.fixture(scope="module")
def expected(broker: BrokerProcess) -> Expected:
    """Write every case; return the records that must be read."""
    found: Expected = {}
    connection = BrokerConnection(get_runtime("threads"), *broker.address)
    with connection:
        for case in CASES:
            magic, codec, pinned = case
            topic = topic_of(*case)
            configs = (
                []
                if pinned is None
                else [TopicConfig("message.format.version", VERSION_OF_MAGIC[pinned])]
            )
            made = connection.request(CreateTopicsRequest([NewTopic(topic, 1, 1, [], configs)]))
            assert made.topics[0].error_code == 0
            found[case] = []
            for number in range(BATCHES):
                batch = records(magic, number)
                data = encode_message_set(batch, magic=magic, codec=codec)
                partition = ProduceRequestPartition(0, data)
                answer = connection.request(
                    ProduceRequest(topics=[ProduceRequestTopic(topic, [partition])]),
                    version=7 if magic == 2 else 2,
                )
                assert answer.topics[0].partitions[0].error_code == 0
                stored = magic if pinned is None else pinned
                found[case] += lines(stored, number * len(batch), batch)
    return found


def split(output: str, mark: str) -> list[tuple[list[str], list[list[str]]]]:
    """Cut the output of a program at its lines that begin with a mark."""
    parts: list[tuple[list[str], list[list[str]]]] = []
    for line in output.splitlines():
        columns = line.split("\t")
        if columns[0] == mark:
            parts.append((columns, []))
        else:
            parts[-1][1].append(columns)
    return parts


@pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[pytest.mark.soak] if v in VERSIONS[1:-1] else []) for v in VERSIONS],
)
def test_segments_are_read_by_the_genuine_record_classes(
    broker: BrokerProcess, expected: Expected, version: str
) -> None:
    paths = {
        case: broker.data_directory / f"{topic_of(*case)}-0" / f"{0:020d}.log" for case in expected
    }
    output = java_clients.run(
        java_clients.command("SegmentReader", version, *map(str, paths.values()))
    )
    read = {columns[1]: (columns, rows) for columns, rows in split(output, "file")}
    for case, path in paths.items():
        magic, codec, pinned = case
        (_, _, file_bytes, whole_bytes), rows = read[str(path)]
        assert file_bytes == whole_bytes, case
        assert [row for row in rows if row[0] == "record"] == expected[case], case
        batches = {(row[1], row[4]) for row in rows if row[0] == "batch"}
        assert batches == {(str(magic if pinned is None else pinned), NAMES[codec])}, case


@pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[pytest.mark.soak] if v in VERSIONS[1:-1] else []) for v in VERSIONS],
)
def test_every_magic_and_codec_is_read_by_the_genuine_consumer(
    broker: BrokerProcess, expected: Expected, version: str
) -> None:
    address = "{}:{}".format(*broker.address)
    topics = {topic_of(*case): case for case in expected}
    output = java_clients.run(java_clients.command("TopicReader", version, address, *topics))
    read = split(output, "topic")
    assert [columns[1] for columns, _ in read] == list(topics)
    for (_, topic), rows in read:
        assert rows == expected[topics[topic]], topic
