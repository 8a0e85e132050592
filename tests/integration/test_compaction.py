"""A compacted topic over the wire: refused messages, fetches of all versions, metrics."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_requests import fetch, list_offset, produce
from tests.support.brokers import connect
from tests.support.clusters import MakeCluster
from tests.support.process import wait_until
from zkbroker.admin.topics import alter_config
from zkbroker.errors import ErrorCode
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.api import SUPPORTED_VERSIONS, ApiKey
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
)
from zkbroker.protocol.messages.topics import (
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    NewTopic,
    TopicConfig,
)
from zkbroker.records import encode_message_set, iter_entries, iter_records
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import free_port

PRODUCERS = 5
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module")
def compacting(local_cluster: MakeCluster) -> Iterator[tuple[BrokerConnection, int]]:
    """A broker that checks often for logs to compact: a connection, and its admin port."""
    port = free_port()
    properties = {"admin.port": str(port), "log.cleaner.backoff.ms": "50"}
    with (
        local_cluster(properties=properties) as cluster,
        connect(cluster.brokers[0]) as connection,
    ):
        yield connection, port


def make(connection: BrokerConnection, name: str, settings: dict[str, str]) -> str:
    configs = [TopicConfig(key, value) for key, value in settings.items()]
    answer = connection.request(CreateTopicsRequest(topics=[NewTopic(name, 1, 1, [], configs)]))
    assert [each.error_code for each in answer.topics] == [0]
    return name


def send(connection: BrokerConnection, topic: str, key: bytes | None, value: bytes) -> int:
    answer = produce(connection, topic, encode_message_set([(key, value, -1, ())]))
    assert answer.error_code == 0
    return answer.base_offset


def samples(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("zkbroker_log_cleaner_")
    }


@pytest.mark.parametrize("version", range(SUPPORTED_VERSIONS[ApiKey.PRODUCE][1] + 1))
def test_compacted_topic_refuses_set_with_missing_key(
    compacting: tuple[BrokerConnection, int], version: int
) -> None:
    connection, _ = compacting
    topic = make(connection, f"keys-{version}", {"cleanup.policy": "compact"})
    magic = 0 if version < 2 else 1 if version == 2 else 2

    def rows(last: bytes | None) -> bytes:
        return encode_message_set([(b"k", b"v", -1, ()), (last, b"v", -1, ())], magic=magic)

    refused = produce(connection, topic, rows(None), version=version)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert list_offset(connection, topic, -1, 1).offset == 0
    # An empty key is a key.
    taken = produce(connection, topic, rows(b""), version=version)
    assert (taken.error_code, taken.base_offset) == (0, 0)


@pytest.mark.parametrize(
    ("policy", "code"),
    [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0), ("delete", 0)],
)
def test_delete_records_depends_on_cleanup_policy(
    compacting: tuple[BrokerConnection, int], policy: str, code: int
) -> None:
    connection, _ = compacting
    topic = make(connection, f"records-{policy.replace(',', '-')}", {"cleanup.policy": policy})
    for _ in range(3):
        send(connection, topic, b"k", b"v")
    for version in range(SUPPORTED_VERSIONS[ApiKey.DELETE_RECORDS][1] + 1):
        wanted = [DeleteRecordsRequestPartition(0, 2)]
        request = DeleteRecordsRequest([DeleteRecordsRequestTopic(topic, wanted)])
        (found,) = connection.request(request, version).topics[0].partitions
        assert found.error_code == code
    assert list_offset(connection, topic, -2, 1).offset == (2 if code == 0 else 0)


@pytest.fixture(scope="module")
def emptied(compacting: tuple[BrokerConnection, int]) -> tuple[BrokerConnection, str, list[int]]:
    """A topic whose first batches are compacted to nothing, and the offsets that it still has."""
    connection, port = compacting
    topic = make(connection, "emptied", SETTINGS)
    for _ in range(PRODUCERS):
        made = connection.request(InitProducerIdRequest(transactional_id=None))
        rows = [(b"key-%d" % number, b"old", -1, ()) for number in range(3)]
        data = encode_message_set(
            rows, producer_id=made.producer_id, producer_epoch=made.producer_epoch, base_sequence=0
        )
        assert produce(connection, topic, data).error_code == 0
    for number in range(40):
        send(connection, topic, b"key-%d" % (number % 3), b"new %d" % number)

    def read() -> list[tuple[int, int]]:
        offset, found = 0, []
        while data := bytes(fetch(connection, topic, offset).records):
            for entry in iter_entries(data):
                found.append((entry.base_offset, entry.record_count))
                offset = entry.last_offset + 1
        return found

    def settled() -> bool:
        if [count for _, count in read()].count(0) != PRODUCERS or len(read()) >= 20:
            return False
        # A pass puts segment after segment in its place, and another one may follow it: it is over
        # when the cleaner has looked again and found nothing.
        return samples(port)["zkbroker_log_cleaner_max_dirty_percent"] == 0

    assert wait_until(settled, interval_s=0.1), f"not compacted: {read()}"
    return connection, topic, [offset for offset, count in read() if count]


@pytest.mark.parametrize("version", range(SUPPORTED_VERSIONS[ApiKey.FETCH][1] + 1))
@pytest.mark.parametrize("max_bytes", [70, 1 << 20])
def test_every_fetch_version_passes_emptied_batches(
    emptied: tuple[BrokerConnection, str, list[int]], version: int, max_bytes: int
) -> None:
    connection, topic, offsets = emptied
    end = offsets[-1] + 1
    for start in range(offsets[0] + 1):
        offset, seen = start, []
        for _ in range(200):
            if offset >= end:
                break
            found = fetch(connection, topic, offset, version=version, max_bytes=max_bytes)
            assert found.error_code == 0
            records = list(iter_records(found.records, start_offset=offset))
            seen += [record.offset for record in records]
            if version < 4:
                # An old client continues after the last message that it received.
                assert records, f"nothing at offset {offset}: it would be asked for again for ever"
                offset = records[-1].offset + 1
            else:
                ends = [entry.last_offset for entry in iter_entries(found.records)]
                assert ends
                assert ends[-1] >= offset
                offset = ends[-1] + 1
        assert seen == offsets


def test_cleaner_metrics_are_counted(
    compacting: tuple[BrokerConnection, int], emptied: tuple[BrokerConnection, str, list[int]]
) -> None:
    _, port = compacting
    name = "zkbroker_log_cleaner_"
    found = samples(port)
    assert found[f"{name}passes_total"] >= 1
    assert found[f"{name}removed_records_total"] >= PRODUCERS * 3
    assert found[f"{name}bytes_total"] > found[f"{name}removed_bytes_total"] > 0
    assert found[f"{name}uncleanable_partitions"] == found[f"{name}uncleanable_bytes"] == 0
    assert 0 <= found[f"{name}max_dirty_percent"] <= 100
    assert 0 <= found[f"{name}since_last_run_seconds"] < 30
    assert found[f"{name}max_clean_seconds"] > 0
    assert 0 <= found[f"{name}recopy_percent"] <= 100
    assert 0 <= found[f"{name}max_buffer_utilization_percent"] <= 100


def test_uncleanable_log_is_counted(local_cluster: MakeCluster, tmp_path: Path) -> None:
    port = free_port()
    properties = {"admin.port": str(port), "log.cleaner.backoff.ms": "50"}
    with local_cluster(directory=tmp_path, properties=properties) as cluster:
        with connect(cluster.brokers[0]) as connection:
            make(connection, "damaged", {**SETTINGS, "cleanup.policy": "delete"})
            for turn in range(30):
                send(connection, "damaged", b"k", b"value %d" % turn * 5)
        (first,) = tmp_path.rglob(f"damaged-0/{0:020d}.log")
        data = bytearray(first.read_bytes())
        data[-1] ^= 1
        first.write_bytes(data)
        assert samples(port)["zkbroker_log_cleaner_uncleanable_partitions"] == 0
        with ZkSession(cluster.zookeeper) as session:
            alter_config(session, "damaged", add={"cleanup.policy": "compact"})
        counted = "zkbroker_log_cleaner_uncleanable_partitions"
        assert wait_until(lambda: samples(port)[counted] == 1, interval_s=0.1)
        found = samples(port)
        assert found["zkbroker_log_cleaner_uncleanable_bytes"] > 600
        assert found["zkbroker_log_cleaner_passes_total"] == 0
