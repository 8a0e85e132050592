"""Members of groups that read a topic during a test."""

import abc
import asyncio
import contextlib
import threading
from typing import Any

from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.testing import LocalCluster

_POLL_S = 0.1
_STOP_S = 30.0


class Reader(threading.Thread, abc.ABC):
    """The only member of a group, until `over` is set.

    Args:
        cluster: to read from.
        topic: to read.
    """

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        super().__init__(name=f"read-{topic}", daemon=True)
        self.cluster = cluster
        self.topic = topic
        self.values: list[bytes] = []
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.read()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    @abc.abstractmethod
    def read(self) -> None:
        """Read until `over`."""


class OurReader(Reader):
    """Our own group consumer."""

    def read(self) -> None:
        config = GroupConsumerConfig.from_properties(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": "500",
            }
        )
        with GroupConsumer(config) as consumer:
            consumer.subscribe([self.topic])
            while not self.over.is_set():
                self.values += [each.value for each in consumer.poll(_POLL_S)]


class RdKafkaReader(Reader):
    """librdkafka's consumer."""

    def read(self) -> None:
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self.over.is_set():
                found = consumer.consume(1000, _POLL_S)
                errors = [each.error() for each in found if each.error() is not None]
                assert not errors, errors
                self.values += [each.value() for each in found]
        finally:
            consumer.close()


class AioKafkaReader(Reader):
    """aiokafka's consumer."""

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        import aiokafka

        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id=self.topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )
        await consumer.start()
        try:
            while not self.over.is_set():
                found: dict[Any, list[Any]] = await consumer.getmany(timeout_ms=100)
                self.values += [each.value for records in found.values() for each in records]
        finally:
            # Where the coordinator moves during its last commit, aiokafka looks for none any more
            # and commits again for ever (0.14, `ensure_coordinator_known` and `commit_offsets`).
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(consumer.stop(), _STOP_S)


class KafkaPythonReader(Reader):
    """kafka-python's consumer."""

    def read(self) -> None:
        from tests.interop.kafka_python import kafka

        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.cluster.bootstrap_servers.split(","),
            group_id=self.topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )
        try:
            # Release 3 assigns no partition of a topic before its metadata has arrived.
            while not consumer.partitions_for_topic(self.topic):
                if self.over.wait(_POLL_S):
                    return
            consumer.subscribe([self.topic])
            while not self.over.is_set():
                try:
                    found = consumer.poll(timeout_ms=100)
                except kafka.errors.KafkaConnectionError:
                    # Raised when neither the coordinator nor the metadata came, each time from a
                    # broker that just went; release 3 leaves it to its user to poll on.
                    self.over.wait(_POLL_S)
                    continue
                self.values += [each.value for records in found.values() for each in records]
        finally:
            consumer.close()
