"""Requests to one broker over a connection, and parts of their answers."""

from collections.abc import Mapping

from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
)
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
)
from zkbroker.protocol.messages.metadata import MetadataTopic
from zkbroker.protocol.messages.produce import (
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from zkbroker.records import Codec, MessageSetBuilder, iter_records


def message_set(magic: int, values: list[bytes], codec: Codec = Codec.NONE) -> bytes:
    builder = MessageSetBuilder(magic, codec)
    for number, value in enumerate(values):
        builder.append(b"key-%d" % number, value, timestamp_ms=1_500_000_000_000 + number)
    return builder.build()


def produce(
    connection: BrokerConnection,
    topic: str,
    data: bytes,
    *,
    version: int | None = None,
    acks: int = 1,
    partition: int = 0,
) -> ProduceResponsePartition:
    request = ProduceRequest(
        acks=acks,
        topics=[ProduceRequestTopic(topic, [ProduceRequestPartition(partition, data)])],
    )
    answer: ProduceResponsePartition = connection.request(request, version).topics[0].partitions[0]
    return answer


def led(connection: BrokerConnection, topic: str) -> bool:
    """Whether partition 0 of a topic has a leader; the topic is created where it must be."""
    found = metadata(connection, topic, 1).partitions
    return bool(found) and not found[0].error_code


def all_led(connection: BrokerConnection, partitions: Mapping[str, int]) -> bool:
    """Whether each partition of topics (topic → how many) has a leader."""
    found = connection.request(MetadataRequest(topics=list(partitions)), 0).topics
    codes = [each.error_code for topic in found for each in topic.partitions]
    return len(codes) == sum(partitions.values()) and not any(codes)


def fetch_partition(
    number: int = 0,
    offset: int = 0,
    *,
    epoch: int = -1,
    log_start_offset: int = -1,
    max_bytes: int = 1 << 20,
) -> FetchRequestPartition:
    return FetchRequestPartition(
        partition=number,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        log_start_offset=log_start_offset,
        max_bytes=max_bytes,
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    total_bytes: int = 1 << 30,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=total_bytes,
        topics=[
            FetchRequestTopic(topic, [fetch_partition(partition, offset, max_bytes=max_bytes)])
        ],
    )


def only(response: FetchResponse) -> FetchResponsePartition:
    return response.topics[0].partitions[0]


def fetch(
    connection: BrokerConnection, topic: str, offset: int, *, version: int | None = None, **how: int
) -> FetchResponsePartition:
    return only(connection.request(fetch_request(topic, offset, **how), version))


def values(partition: FetchResponsePartition, offset: int = 0) -> list[bytes | None]:
    assert isinstance(partition.records, memoryview)
    return [record.value for record in iter_records(partition.records, start_offset=offset)]


def list_offset(
    connection: BrokerConnection, topic: str, timestamp: int, version: int, count: int = 10
) -> ListOffsetsResponsePartition:
    asked = ListOffsetsRequest(
        topics=[
            ListOffsetsRequestTopic(
                topic,
                [
                    ListOffsetsRequestPartition(
                        partition=0,
                        current_leader_epoch=-1,
                        timestamp=timestamp,
                        max_num_offsets=count,
                    )
                ],
            )
        ]
    )
    answer: ListOffsetsResponsePartition = (
        connection.request(asked, version).topics[0].partitions[0]
    )
    return answer


def metadata(connection: BrokerConnection, name: str, version: int) -> MetadataTopic:
    topics: list[MetadataTopic] = connection.request(MetadataRequest([name]), version).topics
    assert [topic.topic for topic in topics] == [name]
    return topics[0]
