"""The APIs that create, grow, configure, empty and delete topics, and producer ids."""

import uuid
from functools import partial

import pytest

from tests.support.broker_requests import (
    fetch,
    list_offset,
    message_set,
    metadata,
    produce,
    values,
)
from tests.support.process import eventually
from zkbroker.errors import ErrorCode
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    InitProducerIdRequest,
)
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import (
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    NewPartitionAssignment,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
    TopicConfig,
)
from zkbroker.records import Codec, MessageSetBuilder, encode_message_set


def fresh() -> str:
    return f"made-{uuid.uuid4().hex[:8]}"


def create(
    connection: BrokerConnection, *topics: NewTopic, validate_only: bool = False
) -> dict[str, int]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return {answer.topic: answer.error_code for answer in connection.request(request).topics}


def test_create_topics_returns_result_of_each_topic(
    connection: BrokerConnection, topic: str
) -> None:
    good, given = fresh(), fresh()
    both = fresh()
    assert create(
        connection,
        NewTopic(good, 3, 1, [], [TopicConfig("retention.ms", "5")]),
        NewTopic(given, -1, -1, [ReplicaAssignment(0, [0]), ReplicaAssignment(1, [0])]),
        NewTopic("bad/name", 1, 1),
        NewTopic(topic, 1, 1),
        NewTopic("two-replicas", 1, 2),
        NewTopic("no-replicas", 1, 0),
        NewTopic("no-partitions", 0, 1),
        NewTopic("unknown-broker", -1, -1, [ReplicaAssignment(0, [9])]),
        NewTopic("gap", -1, -1, [ReplicaAssignment(1, [0])]),
        NewTopic(both, 1, 1, [ReplicaAssignment(0, [0])]),
        NewTopic("bad-config", 1, 1, [], [TopicConfig("retention.ms", "soon")]),
        NewTopic("unknown-config", 1, 1, [], [TopicConfig("retention.years", "1")]),
        NewTopic("null-config", 1, 1, [], [TopicConfig("retention.ms", None)]),
    ) == {
        good: 0,
        given: 0,
        "bad/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        "two-replicas": ErrorCode.INVALID_REPLICATION_FACTOR,
        "no-replicas": ErrorCode.INVALID_REPLICATION_FACTOR,
        "no-partitions": ErrorCode.INVALID_PARTITIONS,
        "unknown-broker": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "gap": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        both: ErrorCode.INVALID_REQUEST,
        "bad-config": ErrorCode.INVALID_CONFIG,
        "unknown-config": ErrorCode.INVALID_CONFIG,
        "null-config": ErrorCode.INVALID_REQUEST,
    }
    # Ready when answered: every partition has its leader.
    assert [p.error_code for p in metadata(connection, good, 1).partitions] == [0, 0, 0]
    assert len(metadata(connection, given, 1).partitions) == 2


def test_topic_named_twice_in_request_is_refused(connection: BrokerConnection) -> None:
    name = fresh()
    assert create(connection, NewTopic(name, 1, 1), NewTopic(name, 2, 1)) == {name: 42}


def test_names_that_collide_in_metrics_are_refused(connection: BrokerConnection) -> None:
    name = fresh()
    assert create(connection, NewTopic(f"{name}.a_b", 1, 1)) == {f"{name}.a_b": 0}
    assert create(connection, NewTopic(f"{name}_a.b", 1, 1)) == {f"{name}_a.b": 17}


def test_validate_only_creates_no_topic(connection: BrokerConnection) -> None:
    name = fresh()
    assert create(connection, NewTopic(name, 1, 1), validate_only=True) == {name: 0}
    assert create(connection, NewTopic(name, 0, 1), validate_only=True) == {name: 37}
    assert create(connection, NewTopic(name, 1, 1)) == {name: 0}


def test_topic_is_deleted_with_its_data(connection: BrokerConnection, topic: str) -> None:
    produce(connection, topic, message_set(2, [b"old"]))
    answer = connection.request(DeleteTopicsRequest(topics=[topic, "no-such-topic"]))
    assert {each.topic: each.error_code for each in answer.topics} == {
        topic: 0,
        "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert produce(connection, topic, message_set(2, [b"x"])).error_code == 3
    assert create(connection, NewTopic(topic, 1, 1)) == {topic: 0}
    assert produce(connection, topic, message_set(2, [b"new"])).base_offset == 0
    assert values(fetch(connection, topic, 0)) == [b"new"]


def test_partitions_are_added_to_topic(connection: BrokerConnection, topic: str) -> None:
    def grow(count: int, *, check: bool = False, given: list[int] | None = None) -> int:
        assigned = None if given is None else [NewPartitionAssignment([b]) for b in given]
        request = CreatePartitionsRequest(
            topics=[NewPartitions(topic, count, assigned)], validate_only=check
        )
        code: int = connection.request(request).topics[0].error_code
        return code

    assert grow(3, check=True) == 0
    assert len(metadata(connection, topic, 1).partitions) == 1
    assert grow(3) == 0
    assert grow(3) == ErrorCode.INVALID_PARTITIONS
    assert grow(2) == ErrorCode.INVALID_PARTITIONS
    assert grow(5, given=[0]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(5, given=[0, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(5, given=[0, 0]) == 0
    assert produce(connection, topic, message_set(2, [b"v"]), partition=4).error_code == 0
    twice = CreatePartitionsRequest(topics=[NewPartitions(topic, 6), NewPartitions(topic, 7)])
    assert [each.error_code for each in connection.request(twice).topics] == [42]
    unknown = CreatePartitionsRequest(topics=[NewPartitions("no-such-topic", 2)])
    assert connection.request(unknown).topics[0].error_code == 3


def test_records_are_deleted_below_offset(connection: BrokerConnection, topic: str) -> None:
    for number in range(5):
        produce(connection, topic, message_set(2, [b"%d" % number]))

    def delete(offset: int, partition: int = 0) -> tuple[int, int]:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequestTopic(topic, [DeleteRecordsRequestPartition(partition, offset)])
            ]
        )
        answer = connection.request(request).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    assert delete(2) == (0, 2)
    assert fetch(connection, topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetch(connection, topic, 2), 2) == [b"2", b"3", b"4"]
    assert list_offset(connection, topic, -2, 1).offset == 2
    assert delete(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(-1) == (0, 5)
    assert delete(0, partition=7) == (3, -1)
    topic = "__consumer_offsets"
    assert delete(0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def described(
    connection: BrokerConnection, kind: int, name: str, *keys: str
) -> tuple[int, dict[str, tuple[str | None, int]]]:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    answer = connection.request(DescribeConfigsRequest(resources=[resource])).resources[0]
    return answer.error_code, {e.name: (e.value, e.source) for e in answer.entries}


def alter(connection: BrokerConnection, kind: int, name: str, **settings: str | None) -> int:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                kind,
                name,
                [TopicConfig(key.replace("_", "."), value) for key, value in settings.items()],
            )
        ]
    )
    code: int = connection.request(request).resources[0].error_code
    return code


def test_topic_settings_are_described_and_altered(connection: BrokerConnection, topic: str) -> None:
    kind = ConfigResourceType.TOPIC
    code, before = described(connection, kind, topic)
    assert code == 0
    assert before["max.message.bytes"] == ("1000012", ConfigSource.DEFAULT)
    assert alter(connection, kind, topic, max_message_bytes="100") == 0
    # At once, as from brokers that look into ZooKeeper.
    code, after = described(connection, kind, topic, "max.message.bytes")
    assert after == {"max.message.bytes": ("100", ConfigSource.TOPIC)}
    request = AlterConfigsRequest(
        [AlterConfigsResource(kind, topic, [TopicConfig("max.message.bytes", "200")])],
        validate_only=True,
    )
    assert [each.error_code for each in connection.request(request).resources] == [0]
    assert described(connection, kind, topic, "max.message.bytes") == (code, after)
    assert alter(connection, kind, topic, max_message_bytes="few") == ErrorCode.INVALID_CONFIG
    # It would otherwise remove the setting, and all others of the topic that are not named.
    assert alter(connection, kind, topic, retention_ms=None) == ErrorCode.INVALID_REQUEST
    assert described(connection, kind, topic, "max.message.bytes") == (code, after)
    assert alter(connection, kind, "no-such-topic", retention_ms="1") == 3
    assert described(connection, kind, "no-such-topic")[0] == 3


def test_broker_settings_are_described_and_static_ones_refused(
    connection: BrokerConnection,
) -> None:
    code, found = described(connection, ConfigResourceType.BROKER, "0")
    assert code == 0
    assert found["offsets.topic.num.partitions"] == ("5", ConfigSource.STATIC_BROKER)
    assert found["log.segment.bytes"] == (str(1 << 30), ConfigSource.DEFAULT)
    assert found["offsets.retention.minutes"] == ("10080", ConfigSource.DEFAULT)
    assert found["zookeeper.connect"][1] == ConfigSource.STATIC_BROKER
    assert described(connection, ConfigResourceType.BROKER, "9")[0] == ErrorCode.INVALID_REQUEST
    assert described(connection, 3, "x")[0] == ErrorCode.INVALID_REQUEST
    assert alter(connection, ConfigResourceType.BROKER, "0", num_partitions="1") == 42


def producer_batch(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    builder = MessageSetBuilder(
        2, Codec.NONE, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    for number in range(count):
        builder.append(None, b"%d" % number, timestamp_ms=1_600_000_000_000)
    return builder.build()


def test_idempotent_producers(connection: BrokerConnection, topic: str) -> None:
    ids = [connection.request(InitProducerIdRequest()) for _ in range(3)]
    assert len({answer.producer_id for answer in ids}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in ids} == {(0, 0)}
    mine = ids[0].producer_id

    def send(epoch: int, sequence: int, count: int = 1) -> tuple[int, int]:
        answer = produce(connection, topic, producer_batch(mine, epoch, sequence, count))
        return answer.error_code, answer.base_offset

    assert [send(0, sequence, 2) for sequence in range(0, 14, 2)] == [
        (0, sequence) for sequence in range(0, 14, 2)
    ]
    assert send(0, 12, 2) == (0, 12)
    assert send(0, 4, 2) == (0, 4)
    assert send(0, 2, 2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, 20)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1, 0) == (0, 14)
    assert send(0, 14)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(values(fetch(connection, topic, 0))) == 15


def test_transactional_batch_without_transactional_id_is_refused(
    connection: BrokerConnection, topic: str
) -> None:
    batch = encode_message_set(
        [(None, b"x", 1_600_000_000_000, ())],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    # Without the transactional id, which older requests cannot carry, no coordinator can be asked.
    for version, data, code in (
        (2, batch, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, message_set(1, [b"before"]) + batch, ErrorCode.INVALID_TXN_STATE),
        (7, batch, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ):
        assert produce(connection, topic, data, version=version).error_code == code
    assert values(fetch(connection, topic, 0)) == []


@pytest.mark.parametrize("version", range(8))
def test_acks_all_is_refused_below_min_insync_replicas(
    connection: BrokerConnection, version: int
) -> None:
    name = fresh()
    create(connection, NewTopic(name, 1, 1, [], [TopicConfig("min.insync.replicas", "2")]))
    data = message_set(1 if version < 3 else 2, [b"x"])
    refused = produce(connection, name, data, acks=-1, version=version)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert values(fetch(connection, name, 0)) == []
    assert produce(connection, name, data, acks=1, version=version).error_code == 0
    answered = produce(connection, name, data, acks=-1, version=version)
    assert answered.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(values(fetch(connection, name, 0))) == 1

    change = [TopicConfig("min.insync.replicas", "1")]
    alter = AlterConfigsRequest([AlterConfigsResource(ConfigResourceType.TOPIC, name, change)])
    connection.request(alter)
    again = partial(produce, connection, name, data, acks=-1, version=version)
    eventually(lambda: again().error_code == 0)


@pytest.mark.parametrize("pin", ["0.9.0", "0.10.2"])
def test_old_message_format_refuses_newer_features(connection: BrokerConnection, pin: str) -> None:
    name = fresh()
    create(connection, NewTopic(name, 1, 1, [], [TopicConfig("message.format.version", pin)]))
    assert produce(connection, name, producer_batch(1, 0, 0)).error_code == 43
    assert produce(connection, name, message_set(2, [b"plain"]), version=3).error_code == 0
    found = list_offset(connection, name, 1_500_000_000_000, 1)
    assert found.error_code == (43 if pin == "0.9.0" else 0)
