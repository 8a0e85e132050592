"""Producers that send numbers with acks=all during a test, and checks of the stored messages.

Each has its own topic: ours idempotent, ours with plain retries, librdkafka's, aiokafka's,
kafka-python's, and a Java stream that reads its own topic too.
"""

import asyncio
import subprocess
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import Future
from typing import Any

from tests.support import java_clients
from tests.support.reading import Stored, read_stored
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.testing import LocalCluster

IDEMPOTENT, PLAIN, RDKAFKA, JAVA = "idempotent", "plain", "rdkafka", "java"
AIOKAFKA, KAFKA_PYTHON = "aiokafka", "kafka-python"
_DELIVERY_MS = 120_000
_BURST = 20
_PAUSE_S = 0.1


class Sender(threading.Thread):
    """Sends numbers to one topic, partition by partition, until `over` is set.

    Args:
        cluster: to send to.
        topic: to send to.
        partitions: how many the topic has.
    """

    once = True
    """Whether each message is to be stored once, and in order."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int) -> None:
        super().__init__(name=f"send-{topic}", daemon=True)
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.sent: list[tuple[int, bytes, Future[Any]]] = []
        self.over = threading.Event()

    def next(self) -> tuple[int, bytes, "Future[Any]"]:
        """Return the next partition and value, and the future that takes its offset."""
        number = len(self.sent)
        entry = number % self.partitions, b"%d" % number, Future[Any]()
        self.sent.append(entry)
        return entry

    def acknowledges(self) -> bool:
        """Whether one of the messages sent from now on is acknowledged within a minute."""
        before = len(self.sent)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(
                future.done() and future.exception() is None for *_, future in self.sent[before:]
            ):
                return True
            time.sleep(0.02)
        return False

    def check(self) -> str:
        """Check that messages are stored once and in order; return a summary."""
        stored = read_stored(self.cluster, self.topic)
        expected: dict[int, list[bytes]] = defaultdict(list)
        for partition, value, future in self.sent:
            offset = future.result(0)
            if offset >= 0:
                assert stored[partition][offset].value == value, (partition, offset)
            expected[partition].append(value)
        for partition, values in expected.items():
            if self.once:
                assert self.sent_once(stored[partition]) == values
            assert not Counter(values) - Counter(each.value for each in stored[partition])
        kept = sum(map(len, stored.values()))
        return f"{self.topic}: {len(self.sent)} sent, {kept} stored"

    def sent_once(self, stored: list[Stored]) -> list[bytes | None]:
        """Return a partition's values without those that the producer itself sent again as new."""
        return [each.value for each in stored]


class OurSender(Sender):
    """Our own producer."""

    def __init__(
        self, cluster: LocalCluster, topic: str, partitions: int, **properties: str
    ) -> None:
        super().__init__(cluster, topic, partitions)
        self._config = ProducerConfig.from_properties(
            {
                "zookeeper.connect": cluster.zookeeper,
                "producer.type": "async",
                "request.required.acks": "-1",
                "queue.buffering.max.messages": "500",
                "queue.buffering.max.ms": "5",
                "request.timeout.ms": "3000",
                "delivery.timeout.ms": str(_DELIVERY_MS),
                **properties,
            }
        )
        self.once = self._config.idempotence

    def run(self) -> None:
        with Producer(self._config) as producer:
            while not self.over.is_set():
                partition, value, future = self.next()

                def done(sent: Any, future: Future[Any] = future) -> None:
                    error = sent.exception()
                    if error is None:
                        future.set_result(sent.result().offset)
                    else:
                        future.set_exception(error)

                message = KeyedMessage(self.topic, value, partition=partition)
                producer.send(message).add_done_callback(done)
                if len(self.sent) % _BURST == 0:
                    self.over.wait(_PAUSE_S)


class RdKafkaSender(Sender):
    """librdkafka's idempotent producer.

    When one partition refuses a sequence number, which a change of leaders can bring about, it
    raises its epoch and sends what is in flight to all others again (confluentinc/librdkafka#4953,
    open, version 2.16). To any broker those are new messages. So a message may be stored again
    where a new epoch begins, and nowhere else.
    """

    def sent_once(self, stored: list[Stored]) -> list[bytes | None]:
        once: dict[bytes | None, None] = {}
        producer, begins = (-1, -1), True
        for each in stored:
            if each.producer != producer:
                assert each.producer > producer
                producer, begins = each.producer, True
            begins = begins and each.value in once
            assert begins or each.value not in once, (each, "doubled within an epoch")
            once[each.value] = None
        return list(once)

    def run(self) -> None:
        import confluent_kafka

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": _DELIVERY_MS,
                "request.timeout.ms": 3000,
                "linger.ms": 5,
            }
        )
        while not self.over.is_set():
            partition, value, future = self.next()

            def done(error: Any, message: Any, future: Future[Any] = future) -> None:
                if error is None:
                    # None for a duplicate of a batch whose offset the leader no longer knows.
                    offset = message.offset()
                    future.set_result(-1 if offset is None else offset)
                else:
                    future.set_exception(RuntimeError(str(error)))

            producer.produce(self.topic, value, partition=partition, on_delivery=done)
            producer.poll(0)
            if len(self.sent) % _BURST == 0:
                # A poll returns with the first callback, so one poll is no pause.
                until = time.monotonic() + _PAUSE_S
                while (left := until - time.monotonic()) > 0:
                    producer.poll(left)
            while len(producer) > 2000 and not self.over.is_set():
                producer.poll(0.05)
        assert producer.flush(120) == 0


class AioKafkaSender(Sender):
    """aiokafka's idempotent producer."""

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        import aiokafka

        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            enable_idempotence=True,
            # Also the time after which a batch without a leader fails.
            request_timeout_ms=30_000,
            linger_ms=5,
        )
        await producer.start()
        waiting: list[Any] = []
        try:
            while not self.over.is_set():
                partition, value, future = self.next()
                sent = await producer.send(self.topic, value, partition=partition)
                waiting.append(asyncio.ensure_future(_pass_on(sent, future)))
                if len(self.sent) % _BURST == 0:
                    await asyncio.sleep(_PAUSE_S)
                    waiting = [each for each in waiting if not each.done()]
            await asyncio.gather(*waiting)
        finally:
            await producer.stop()


async def _pass_on(sent: Any, future: Future[Any]) -> None:
    try:
        found = await sent
    except Exception as error:  # noqa: BLE001 - `check` raises it
        future.set_exception(error)
    else:
        future.set_result(found.offset)


class KafkaPythonSender(Sender):
    """kafka-python's producer with retries."""

    once = False

    def run(self) -> None:
        from tests.interop.kafka_python import kafka

        producer = kafka.KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers.split(","),
            acks="all",
            retries=1000,
            enable_idempotence=False,
            delivery_timeout_ms=_DELIVERY_MS,
            request_timeout_ms=5000,
            linger_ms=5,
        )
        try:
            while not self.over.is_set():
                partition, value, future = self.next()
                sent = producer.send(self.topic, value, partition=partition)
                sent.add_callback(lambda found, future=future: future.set_result(found.offset))
                sent.add_errback(future.set_exception)
                if len(self.sent) % _BURST == 0:
                    self.over.wait(_PAUSE_S)
            producer.flush(120)
        finally:
            producer.close(10)


class JavaStream:
    """The newest Java client: an idempotent producer and a group, which check what they read."""

    def __init__(self, cluster: LocalCluster, partitions: int) -> None:
        self._process = subprocess.Popen(
            java_clients.command(
                "Stream",
                java_clients.versions()[-1],
                cluster.bootstrap_servers,
                JAVA,
                str(partitions),
                str(round(1000 * _PAUSE_S / _BURST * partitions)),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> int:
        """Return how many messages were sent, acknowledged, and read once and in order."""
        output, errors = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, errors[-4000:]
        return int(output.split()[-1])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()
