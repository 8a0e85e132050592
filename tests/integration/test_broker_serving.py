"""Produce, fetch, list offsets and metadata against a broker process."""

import time
import uuid

import pytest

from tests.support.broker_requests import (
    fetch,
    fetch_partition,
    fetch_request,
    led,
    list_offset,
    message_set,
    metadata,
    only,
    produce,
    values,
)
from tests.support.brokers import connect
from tests.support.process import eventually
from zkbroker.cluster import BrokerProcess
from zkbroker.errors import ErrorCode, NetworkError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import SUPPORTED_VERSIONS, ApiKey
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.produce import (
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import Codec, iter_entries


def test_empty_set_is_accepted_only_before_produce_v3(
    connection: BrokerConnection, topic: str
) -> None:
    for version in range(3):
        answer = produce(connection, topic, b"", version=version)
        assert (answer.error_code, answer.base_offset) == (0, -1)
    answer = produce(connection, topic, b"", version=3)
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("version", range(8))
@pytest.mark.parametrize("codec", list(Codec))
def test_produced_messages_are_fetched_by_every_version(
    connection: BrokerConnection, topic: str, version: int, codec: Codec
) -> None:
    magic = 0 if version < 2 else 1 if version == 2 else 2
    if version < codec.produce_since:
        pytest.skip(f"{codec.label} is allowed from Produce v{codec.produce_since} on")
    sent = [b"value-%d" % number for number in range(20)]
    answer = produce(connection, topic, message_set(magic, sent, codec), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    for fetch_version in range(codec.fetch_since, SUPPORTED_VERSIONS[ApiKey.FETCH][1] + 1):
        found = fetch(connection, topic, 0, version=fetch_version)
        assert (found.error_code, found.high_watermark) == (0, 20)
        assert values(found) == sent
        readable = 0 if fetch_version < 2 else 1 if fetch_version < 4 else 2
        assert {entry.magic for entry in iter_entries(found.records)} == {min(magic, readable)}


def test_zstd_is_refused_for_older_versions(connection: BrokerConnection, topic: str) -> None:
    data = message_set(2, [b"x" * 100] * 10, Codec.ZSTD)
    for version in range(3, 7):
        refused = produce(connection, topic, data, version=version)
        assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    produce(connection, topic, message_set(2, [b"before"]))
    assert produce(connection, topic, data, version=7).base_offset == 1
    for version in range(10):
        # Entries before it are returned; it is refused if it is the first.
        assert values(fetch(connection, topic, 0, version=version)) == [b"before"]
        refused_fetch = fetch(connection, topic, 1, version=version)
        assert refused_fetch.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert len(values(fetch(connection, topic, 0, version=10))) == 11


def test_fetch_returns_partial_entries_up_to_v2_and_whole_first_entry_later(
    connection: BrokerConnection, topic: str
) -> None:
    for _ in range(3):
        produce(connection, topic, message_set(0, [b"x" * 100]), version=0)
    size = len(message_set(0, [b"x" * 100]))
    for version in (0, 1, 2):
        assert len(fetch(connection, topic, 0, version=version, max_bytes=70).records) == 70
        cut = fetch(connection, topic, 0, version=version, max_bytes=size + 10)
        assert len(cut.records) == size + 10
        assert len(values(cut)) == 1
    for version in range(3, 11):
        assert len(fetch(connection, topic, 0, version=version, max_bytes=70).records) == size
        whole = fetch(connection, topic, 0, version=version, max_bytes=1 << 20, total_bytes=70)
        assert len(whole.records) == size


def test_max_bytes_leaves_later_partitions_empty(connection: BrokerConnection, topic: str) -> None:
    data = message_set(2, [b"x" * 1000])
    other = f"{topic}-other"
    connection.request(CreateTopicsRequest([NewTopic(other, 1, 1)], 10_000))
    produce(connection, topic, data)
    produce(connection, other, data)
    asked = fetch_request(topic, 0, total_bytes=len(data))
    asked.topics += fetch_request(other, 0).topics
    first, second = (answer.partitions[0] for answer in connection.request(asked).topics)
    assert len(first.records) == len(data)
    assert (second.error_code, len(second.records)) == (0, 0)


@pytest.mark.parametrize("version", range(11))
def test_fetch_errors(connection: BrokerConnection, topic: str, version: int) -> None:
    produce(connection, topic, message_set(0, [b"one"]), version=0)
    beyond = fetch(connection, topic, 5, version=version)
    assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    missing = fetch(connection, topic, 0, version=version, partition=55)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = fetch(connection, "no-such-topic", 0, version=version)
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_long_poll_returns_when_data_arrives(
    connection: BrokerConnection, broker: object, topic: str
) -> None:
    polling = connection.send(fetch_request(topic, 0, max_wait_ms=30_000))
    with BrokerConnection(connection.runtime, connection.host, connection.port) as other:
        produce(other, topic, message_set(2, [b"at last"]))
    assert values(only(polling.result(20))) == [b"at last"]


def test_long_poll_returns_empty_after_max_wait(connection: BrokerConnection, topic: str) -> None:
    started = time.monotonic()
    found = fetch(connection, topic, 0, max_wait_ms=200)
    assert (found.error_code, len(found.records)) == (0, 0)
    assert time.monotonic() - started >= 0.19


def test_long_poll_waits_for_min_bytes(connection: BrokerConnection, topic: str) -> None:
    data = message_set(2, [b"x" * 500])
    polling = connection.send(fetch_request(topic, 0, max_wait_ms=30_000, min_bytes=2 * len(data)))
    with BrokerConnection(connection.runtime, connection.host, connection.port) as other:
        produce(other, topic, data)
        assert not polling.done
        produce(other, topic, data)
    assert len(values(only(polling.result(20)))) == 2


def test_fetch_error_is_returned_without_waiting(connection: BrokerConnection, topic: str) -> None:
    answer = connection.request(fetch_request(topic, 9, max_wait_ms=60_000), timeout_s=20)
    assert only(answer).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_clients_get_no_fetch_session(connection: BrokerConnection, topic: str) -> None:
    asked = fetch_request(topic, 0)
    asked.session_epoch = 0
    full = connection.request(asked)
    assert (full.error_code, full.session_id, len(full.topics)) == (0, 0, 1)
    asked.session_id, asked.session_epoch = 7, 1
    refused = connection.request(asked)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", range(8))
def test_corrupt_crc_is_refused_and_next_produce_succeeds(
    connection: BrokerConnection, topic: str, version: int
) -> None:
    magic = 0 if version < 2 else 1 if version == 2 else 2
    data = bytearray(message_set(magic, [b"value"]))
    data[-1] ^= 0xFF
    answer = produce(connection, topic, bytes(data), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert produce(connection, topic, message_set(magic, [b"v"]), version=version).error_code == 0


def test_produce_errors(connection: BrokerConnection, topic: str) -> None:
    data = message_set(2, [b"value"])
    assert produce(connection, topic, data, partition=7).error_code == 3
    assert produce(connection, "no-such-topic", data).error_code == 3
    assert produce(connection, topic, data, acks=2).error_code == 21
    assert produce(connection, topic, data, acks=-1).error_code == 0
    assert produce(connection, topic, b"").error_code == 2
    assert produce(connection, topic, message_set(2, [b"x" * 1_100_000])).error_code == 10
    assert produce(connection, topic, message_set(1, [b"v"]), version=3).error_code == 2
    assert produce(connection, "__consumer_offsets", data).error_code == 17


def test_acks_0_has_no_response_and_error_closes_connection(
    connection: BrokerConnection, topic: str
) -> None:
    def request(name: str) -> ProduceRequest:
        return ProduceRequest(
            acks=0,
            topics=[
                ProduceRequestTopic(name, [ProduceRequestPartition(0, message_set(2, [b"silent"]))])
            ],
        )

    assert connection.request(request(topic)) is None
    assert values(fetch(connection, topic, 0)) == [b"silent"]
    connection.request(request("no-such-topic"))
    with pytest.raises(NetworkError):
        connection.request(ApiVersionsRequest())


def test_offsets_are_listed_by_every_version(connection: BrokerConnection, topic: str) -> None:
    produce(connection, topic, message_set(2, [b"%d" % number for number in range(9)]))
    assert list_offset(connection, topic, -1, 0).offsets == [9, 0]
    assert list_offset(connection, topic, -1, 0, count=1).offsets == [9]
    assert list_offset(connection, topic, -2, 0).offsets == [0]
    for version in range(1, 5):
        assert list_offset(connection, topic, -1, version).offset == 9
        assert list_offset(connection, topic, -2, version).offset == 0
        found = list_offset(connection, topic, 1_500_000_000_004, version)
        assert (found.timestamp, found.offset) == (1_500_000_000_004, 4)
        nothing = list_offset(connection, topic, 1_600_000_000_000, version)
        assert (nothing.error_code, nothing.timestamp, nothing.offset) == (0, -1, -1)
    assert list_offset(connection, "no-such-topic", -1, 1).error_code == 3
    wanted = [
        ListOffsetsRequestPartition(partition=0, current_leader_epoch=-1, timestamp=each)
        for each in (-1, -2)
    ]
    twice = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(topic, wanted)])
    for version in range(1, 5):
        answers = connection.request(twice, version).topics[0].partitions
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(8))
def test_metadata_request_creates_unknown_topic(connection: BrokerConnection, version: int) -> None:
    name = f"auto-{uuid.uuid4().hex[:8]}"
    assert metadata(connection, name, version).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    eventually(lambda: led(connection, name))
    found = metadata(connection, name, version).partitions
    assert [(p.partition, p.leader, p.replicas, p.isr) for p in found] == [(0, 0, [0], [0])]
    assert produce(connection, name, message_set(1, [b"first"]), version=2).error_code == 0


@pytest.mark.parametrize("version", range(8))
def test_metadata_of_no_topics_all_topics_and_invalid_topic(
    connection: BrokerConnection, topic: str, version: int
) -> None:
    every = connection.request(MetadataRequest([] if version == 0 else None), version)
    assert topic in [answer.topic for answer in every.topics]
    assert [(broker.node_id, broker.port) for broker in every.brokers] == [(0, connection.port)]
    if version:
        assert connection.request(MetadataRequest([]), version).topics == []
        assert every.controller_id == 0
    if version >= 2:
        assert len(every.cluster_id) == 22
    assert metadata(connection, "bad/topic", version).error_code == 17
    if version >= 4:
        asked = MetadataRequest(["no-such-topic"], allow_auto_topic_creation=False)
        assert connection.request(asked, version).topics[0].error_code == 3


def test_api_versions_lists_supported_versions(connection: BrokerConnection) -> None:
    assert connection.guess is None
    assert connection.versions == SUPPORTED_VERSIONS


def test_client_that_disconnects_in_long_poll_logs_no_warning(broker: BrokerProcess) -> None:
    before = broker.log_path.stat().st_size
    with connect(broker) as asking:
        name = f"left-{uuid.uuid4().hex[:8]}"
        asking.request(CreateTopicsRequest(topics=[NewTopic(name, 3, 1)]))
        poll = fetch_request(name, 0, max_wait_ms=60_000)
        poll.topics[0].partitions += [fetch_partition(number) for number in (1, 2)]
        with connect(broker) as leaving:
            waiting = leaving.send(poll)
            # Its answer would come first, if the poll did not wait.
            assert metadata(asking, name, 1).error_code == 0
            assert not waiting.done
        # This wakes the fetch, before the next request is read.
        assert produce(asking, name, message_set(2, [b"x"])).error_code == 0
        assert len(values(fetch(asking, name, 0))) == 1
    with broker.log_path.open("rb") as log:
        log.seek(before)
        assert b"WARNING" not in log.read()
