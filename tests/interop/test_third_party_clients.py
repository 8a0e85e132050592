"""Clients of all years produce, and each consumes the messages of all, byte for byte."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.jobs import EVERY, LIBRARIES, Client, Record, missing, run
from tests.support.brokers import running_broker
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

START_MS = 1_500_000_000_000


def record(number: int, key: bytes | None, value: bytes | None, *headers: list[Any]) -> Record:
    return {
        "key": None if key is None else key.hex(),
        "value": None if value is None else value.hex(),
        "timestamp": START_MS + number,
        "headers": list(headers),
    }


def records(client: Client) -> list[Record]:
    """Keys, null keys, tombstones, binary, large and empty values, headers."""
    binary = bytes(range(256)).replace(b"~~", b"").replace(b"@@@", b"")
    found = [
        record(0, b"key", b"value"),
        record(1, None, b"value without a key"),
        record(2, b"key", None),
        record(3, binary, binary * 3),
        record(4, b"key", b"repeated " * 500),
        record(5, "ключ".encode(), "значение".encode(), ["name", b"held".hex()]),
        record(6, b"key", b"two", ["name", b"first".hex()], ["name", b"second".hex()]),
    ]
    if client.library != "kcat":
        # kcat cannot tell an empty text from a null one.
        found.append(record(7, b"", b""))
    if client.library == "confluent":
        # kafka-python refuses null header values.
        found.append(record(8, b"key", b"null header", ["nothing", None]))
    if client.library == "kcat":
        # With kcat delimiters may not occur, and -Z turns an empty key or value into null.
        found = [each for each in found if each["value"] != (binary * 3).hex()]
    if not client.tombstones:
        found = [each for each in found if each["value"] is not None]
    if not client.headers:
        found = [each | {"headers": []} for each in found]
    return found


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    with running_broker(
        tmp_path_factory.mktemp("interop"),
        f"{zookeeper.connect_string}/interop",
        {
            # The records bear the time of 2017.
            "log.retention.ms": "-1",
            # kafkajs and kafka-node read as members of a group, alone in it.
            "group.initial.rebalance.delay.ms": "0",
        },
    ) as process:
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return "{}:{}".format(*broker.address)


def topic_of(client: Client, codec: str) -> str:
    return f"by-{client.name}-{codec}"


def write_job(broker: BrokerProcess, client: Client) -> dict[str, Any]:
    return {
        "do": "produce",
        "bootstrap": bootstrap(broker),
        "name": client.name,
        "version": client.version,
        "headers": client.headers,
        "timestamps": client.timestamps,
        "more": client.more,
        "records": {codec: records(client) for codec in client.codecs},
        "topics": {codec: topic_of(client, codec) for codec in client.codecs},
    }


@pytest.fixture(scope="module")
def written(broker: BrokerProcess) -> dict[str, tuple[Client, str, list[Record]]]:
    """Topic → the client that wrote it, the codec and the records."""
    host, port = broker.address
    available = [client for client in EVERY if missing(client.library) is None]
    expected = {
        topic_of(client, codec): (client, codec, records(client))
        for client in available
        for codec in client.codecs
    }
    with BrokerConnection(get_runtime("threads"), host, port) as connection:
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in expected]
        made = connection.request(CreateTopicsRequest(topics=topics))
        assert {answer.error_code for answer in made.topics} == {0}
    for clients in LIBRARIES.values():
        if missing(clients[0].library) is None:
            results = run(clients[0].library, [write_job(broker, client) for client in clients])
            assert results == [{} for _ in clients]
    return expected


def seen_by(reader: Client, writer: Client, sent: list[Record]) -> list[Record]:
    """Return the records that a reader must find of those that a writer sent."""
    found = []
    for offset, each in enumerate(sent):
        timestamp = each["timestamp"] if writer.timestamps and reader.timestamps else None
        headers = each["headers"] if reader.headers or reader.reads_headers else []
        found.append(each | {"offset": offset, "timestamp": timestamp, "headers": headers})
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_client_reads_messages_of_every_client(
    broker: BrokerProcess,
    written: dict[str, tuple[Client, str, list[Record]]],
    library: str,
) -> None:
    clients = LIBRARIES[library]
    reason = missing(clients[0].library)
    if reason is not None:
        pytest.skip(reason)
    jobs = [
        {
            "do": "consume",
            "bootstrap": bootstrap(broker),
            "name": reader.name,
            "version": reader.version,
            "expect": {
                topic: len(sent)
                for topic, (writer, codec, sent) in written.items()
                if reader.can_read(writer, codec)
            },
        }
        for reader in clients
    ]
    wrong = []
    for reader, job, found in zip(clients, jobs, run(clients[0].library, jobs), strict=True):
        assert found.get("errors") is None
        for topic in job["expect"]:
            writer, _, sent = written[topic]
            got = found[topic]
            if not (writer.timestamps and reader.timestamps):
                got = [each | {"timestamp": None} for each in got]
            expected = seen_by(reader, writer, sent)
            if got != expected:
                pairs = zip(got + [{}] * len(expected), expected, strict=False)
                first = next(pair for pair in pairs if pair[0] != pair[1])
                wrong.append(f"{reader.name} of {topic}: {first[0]} instead of {first[1]}")
    assert not wrong, "\n".join(wrong)
