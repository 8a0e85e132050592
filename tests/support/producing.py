"""Producers of messages for tests of readers, in a running cluster."""

import time
from collections.abc import Sequence

from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ErrorCode, ProtocolError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import MetadataRequest, ProduceRequest
from zkbroker.protocol.messages.metadata import MetadataResponse
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import Codec, MessageSetBuilder
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster


class TestProducer:
    """Sends batches to the leader of a partition; retries while there is none."""

    __test__ = False

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers.split(",")[0]
        self._connections: dict[str, BrokerConnection] = {}
        self._leaders: dict[tuple[str, int], str] = {}

    def send(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        *,
        magic: int = 2,
        codec: Codec = Codec.NONE,
        timestamp_ms: int | None = None,
    ) -> int:
        """Send one batch with timestamps one millisecond apart; return its base offset."""
        builder = MessageSetBuilder(magic, codec)
        if timestamp_ms is None:
            # A time of today, so that retention keeps the messages.
            timestamp_ms = int(time.time() * 1000)
        for i, value in enumerate(values):
            builder.append(b"key-%d" % i, value, timestamp_ms + i)
        return self.send_set(topic, partition, builder.build(), version=None if magic == 2 else 2)

    def send_set(
        self, topic: str, partition: int, records: bytes, *, version: int | None = None
    ) -> int:
        part = ProduceRequestPartition(partition=partition, records=records)
        request = ProduceRequest(
            acks=1,
            timeout_ms=10_000,
            topics=[ProduceRequestTopic(topic=topic, partitions=[part])],
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                response = self._leader(topic, partition).request(request, version)
                answer = response.topics[0].partitions[0]
                if not answer.error_code:
                    return int(answer.base_offset)
                raise protocol_error(answer.error_code)
            except ProtocolError as error:
                self._leaders.pop((topic, partition), None)
                if not error.code.retriable or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _connection(self, address: str) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            host, _, port = address.rpartition(":")
            connection = BrokerConnection(get_runtime("threads"), host, int(port))
            self._connections[address] = connection
        return connection

    def _leader(self, topic: str, partition: int) -> BrokerConnection:
        key = topic, partition
        if key not in self._leaders:
            response: MetadataResponse = self._connection(self._bootstrap).request(
                MetadataRequest(topics=[topic])
            )
            brokers = {b.node_id: f"{b.host}:{b.port}" for b in response.brokers}
            for part in response.topics[0].partitions:
                if part.leader in brokers:
                    self._leaders[topic, part.partition] = brokers[part.leader]
        if key not in self._leaders:
            raise protocol_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        return self._connection(self._leaders[key])


def access_log_topic(cluster: LocalCluster, lines: int) -> str:
    """Return a new topic of three partitions with lines of an access log in turn."""
    topic = cluster.create_topic(partitions=3)
    config = ProducerConfig.from_properties({"zookeeper.connect": cluster.zookeeper})
    line = b'10.0.0.%d - - [17/May/2015:%02d:05:03 +0000] "GET /%d"'
    with Producer(config) as producer:
        producer.send(
            [KeyedMessage(topic, line % (n % 9, n % 3, n), partition=n % 3) for n in range(lines)]
        )
    return topic
