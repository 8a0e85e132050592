"""The simple consumer: one broker, asked again once over a new connection, nothing remembered."""

from typing import Any

import pytest

from tests.support.message_sets import message_set
from tests.support.played_cluster import PlayedCluster, PlayedConnection
from zkbroker.consumer import FetchRequest, SimpleConsumer, simple
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    MessageSizeTooLarge,
    NetworkError,
    OffsetOutOfRange,
    ProtocolError,
)
from zkbroker.protocol.messages import FetchRequest as FetchRequestMessage
from zkbroker.protocol.messages import FetchResponse, ListOffsetsResponse
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)


class Broker(PlayedCluster):
    """Answers the connections of a consumer; `records` and `errors` by topic and partition."""

    def __init__(self) -> None:
        super().__init__(version=4)
        self.records: dict[tuple[str, int], bytes] = {}
        self.errors: dict[tuple[str, int], int] = {}
        self.connections: list[PlayedConnection] = []
        self.lost = 0

    def connect(self, *_: object, **__: object) -> PlayedConnection:
        self.connections.append(self.connection(0))
        return self.connections[-1]

    def answer(self, connection: PlayedConnection, request: Any) -> Any:
        if self.lost:
            self.lost -= 1
            return NetworkError("lost")
        if isinstance(request, FetchRequestMessage):
            return FetchResponse(
                topics=[
                    FetchResponseTopic(topic.topic, [self._part(topic.topic, each)])
                    for topic in request.topics
                    for each in topic.partitions
                ]
            )
        parts = [
            ListOffsetsResponsePartition(each.partition, 0, offset=7, offsets=[9, 5, 0])
            for each in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsResponseTopic("t", parts)])

    def _part(self, topic: str, asked: Any) -> FetchResponsePartition:
        key = topic, asked.partition
        records = self.records.get(key, b"")[: asked.max_bytes]
        return FetchResponsePartition(
            asked.partition, self.errors.get(key, 0), high_watermark=9, records=records
        )


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(simple, "BrokerConnection", broker.connect)
    return broker


@pytest.fixture
def consumer(broker: Broker) -> SimpleConsumer:
    return SimpleConsumer("h", 1, max_fetch_bytes=400)


def test_fetch_size_doubles_for_large_message(broker: Broker, consumer: SimpleConsumer) -> None:
    broker.records["t", 0] = message_set(2, 3)
    found = consumer.fetch(FetchRequest("t", 0, 0, 20))
    assert ([each.offset for each in found], found.next_offset) == ([0, 1, 2], 3)
    sizes = [request.topics[0].partitions[0].max_bytes for _, request, _ in broker.asked]
    assert sizes == [20, 40, 80, 160]


def test_message_above_limit_is_refused(broker: Broker, consumer: SimpleConsumer) -> None:
    broker.records["t", 0] = message_set(2, 50)
    with pytest.raises(MessageSizeTooLarge, match="t-0 at offset 0"):
        consumer.fetch(FetchRequest("t", 0, 0, 20))


def test_multifetch_keeps_request_order_with_repeated_partition(
    broker: Broker, consumer: SimpleConsumer
) -> None:
    broker.records["t", 0] = message_set(2, 2)
    broker.errors["t", 1] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted = [FetchRequest("t", 0, 0), FetchRequest("t", 1, 0), FetchRequest("t", 0, 1)]
    first, refused, second = consumer.multifetch(wanted)
    assert [each.offset for each in first] == [0, 1]
    assert isinstance(refused.error, ProtocolError)
    assert [each.offset for each in second] == [1]


def test_out_of_range_error_has_valid_range(broker: Broker, consumer: SimpleConsumer) -> None:
    broker.errors["t", 0] = ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(OffsetOutOfRange, match="the log holds"):
        consumer.fetch(FetchRequest("t", 0, 99))


def test_lost_connection_is_reopened_once(broker: Broker, consumer: SimpleConsumer) -> None:
    broker.records["t", 0] = message_set(2, 1)
    consumer.fetch(FetchRequest("t", 0, 0))
    broker.lost = 1
    consumer.fetch(FetchRequest("t", 0, 0))
    assert [each.closed for each in broker.connections] == [True, False]
    broker.lost = 2
    with pytest.raises(NetworkError):
        consumer.fetch(FetchRequest("t", 0, 0))


def test_failed_first_connection_is_not_retried(broker: Broker, consumer: SimpleConsumer) -> None:
    broker.lost = 1
    with pytest.raises(NetworkError):
        consumer.fetch(FetchRequest("t", 0, 0))
    assert len(broker.connections) == 1


@pytest.mark.parametrize(("new", "version"), [(False, 0), (True, 4)])
def test_offset_lists_use_oldest_version_where_supported(
    broker: Broker, consumer: SimpleConsumer, new: bool, version: int
) -> None:
    broker.oldest_version = 1 if new else 0
    assert len(consumer.get_offsets_before("t", 0, -1, 2)) <= 2
    assert broker.asked[-1][2] == version


def test_closed_consumer_and_unknown_storage_are_refused(
    broker: Broker, consumer: SimpleConsumer
) -> None:
    with pytest.raises(ClientError, match="give zookeeper or kafka"):
        consumer.commit_offsets("g", {("t", 0): 1}, storage="disk")
    consumer.close()
    for storage in ("zookeeper", "kafka"):
        with pytest.raises(ClientError, match="is closed"):
            consumer.fetch_offsets("g", [("t", 0)], storage=storage)
