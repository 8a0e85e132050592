"""The channel to one broker: a task that connects, encodes and writes, in order.

    sender ──submit──▶ queue ──▶ [connect, encode, write] ──▶ connection's reader ──▶ on_done

Invariants: exchanges are written in the order of `submit`, and each ends in exactly one call of
`on_done`. After a connection broke, nothing is written to the next one before every exchange of the
broken one was reported: so failed batches are known before any later one can be stored. The sender
never waits for a broker: connecting, encoding and writing happen here.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zkbroker.client import Cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import UnsupportedCompressionType, UnsupportedForMessageFormat, ZkbrokerError
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.producer.batch import Batch
from zkbroker.producer.errors import EncodingFailed
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import Codec
from zkbroker.runtime import QueueEmpty, Runtime

# Produce versions below these carry at most magic 0, and at most magic 1.
_MAGIC_1_VERSION = 2
_MAGIC_2_VERSION = 3


@dataclass(slots=True, eq=False, repr=False)
class Exchange:
    """One produce request and its outcome.

    Attributes:
        batches: its batches, at most one for each partition.
        connection: the one that it was written to; None before.
        sent: whether any of it may have reached the broker.
        started_at: `time.monotonic()` when it was written, in s.
        refused: why a batch was left out of the request.
        response: the answer; None without one or for acks=0.
        error: why there is no response.
        reported: whether its outcome was reported, which happens once.
    """

    broker_id: int
    batches: Sequence[Batch]
    connection: BrokerConnection | None = None
    sent: bool = False
    started_at: float = 0.0
    refused: dict[Batch, ZkbrokerError] = field(default_factory=dict)
    response: ProduceResponse | None = None
    error: BaseException | None = None
    reported: bool = False


class BrokerChannel:
    """Sends exchanges to one broker.

    Args:
        broker_id: of the broker.
        cluster: gives the connection.
        runtime: runs the task.
        config: of the producer.
        on_done: called with each exchange once, in the task that learns the outcome.
    """

    def __init__(
        self,
        broker_id: int,
        cluster: Cluster,
        runtime: Runtime,
        config: ProducerConfig,
        on_done: Callable[[Exchange], None],
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._config = config
        self._on_done = on_done
        self._codec = Codec.from_name(config.compression_codec)
        self._level = None if config.compression_level < 0 else config.compression_level
        self._queue = runtime.queue(config.max_in_flight + 1)
        self._connection: BrokerConnection | None = None
        self._guard = runtime.guard()
        self._unanswered = 0
        self._all_answered = runtime.event()
        self._broken: BaseException | None = None
        self.outstanding = 0
        self._task = runtime.spawn(self._run, name=f"producer-broker-{broker_id}")

    @property
    def free(self) -> bool:
        """Whether one more exchange may be submitted."""
        return self.outstanding < self._config.max_in_flight

    def submit(self, exchange: Exchange) -> None:
        """Send an exchange after those before it."""
        self.outstanding += 1
        self._queue.put(exchange, timeout_s=0)
        if self._broken is not None:
            self._fail_queued(self._broken)

    def close(self) -> None:
        """End the task after the submitted exchanges."""
        try:
            while True:
                self._queue.get(timeout_s=0)
        except QueueEmpty:
            self._queue.put(None, timeout_s=0)

    def join(self, timeout_s: float) -> bool:
        """Wait for the task's end."""
        return self._task.join(timeout_s)

    def _run(self) -> None:
        exchange: Exchange | None = None
        try:
            while (exchange := self._queue.get()) is not None:
                try:
                    self._transmit(exchange)
                except ZkbrokerError as error:
                    exchange.error = error
                    self._report(exchange)
        except BaseException as error:
            # A defect, logged above, or Ctrl-C in this greenlet: leave no future open.
            self._broken = error
            if exchange is not None:
                self._fail(exchange, error)
            self._fail_queued(error)
            raise

    def _fail_queued(self, cause: BaseException) -> None:
        try:
            while True:
                exchange = self._queue.get(timeout_s=0)
                if exchange is not None:
                    self._fail(exchange, cause)
        except QueueEmpty:
            pass  # all exchanges were reported

    def _fail(self, exchange: Exchange, cause: BaseException) -> None:
        exchange.error = EncodingFailed(f"the batch could not be sent: {cause!r}")
        self._report(exchange)

    def _report(self, exchange: Exchange) -> None:
        if not exchange.reported:
            exchange.reported = True
            self._on_done(exchange)

    def _transmit(self, exchange: Exchange) -> None:
        connection = self._cluster.connection(self._broker_id)
        if connection is not self._connection:
            self._leave(self._connection)
            self._connection = connection
        version, magic = self._version(connection)
        topics: dict[str, list[ProduceRequestPartition]] = {}
        for batch in exchange.batches:
            try:
                data = self._encode(batch, connection, version, magic)
            except ZkbrokerError as error:
                exchange.refused[batch] = error
                continue
            topics.setdefault(batch.topic, []).append(
                ProduceRequestPartition(partition=batch.partition, records=data)
            )
        if not topics:
            self._report(exchange)
            return
        request = ProduceRequest(
            transactional_id=self._config.transactional_id or None,
            acks=self._config.required_acks,
            timeout_ms=self._config.request_timeout_ms,
            topics=[
                ProduceRequestTopic(topic=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ],
        )
        exchange.started_at = time.monotonic()
        exchange.connection = connection
        exchange.sent = True
        pending = connection.send(request, version)
        with self._guard:
            self._unanswered += 1

        def done(finished: Pending) -> None:
            try:
                exchange.response = finished.result(0)
            except ZkbrokerError as error:
                exchange.error = error
            try:
                self._report(exchange)
            finally:
                with self._guard:
                    self._unanswered -= 1
                    answered = self._unanswered == 0
                if answered:
                    self._all_answered.set()

        pending.add_done_callback(done)

    def _leave(self, connection: BrokerConnection | None) -> None:
        """Give a connection up, and wait until every exchange on it was reported."""
        if connection is None:
            return
        connection.close()
        while True:
            with self._guard:
                if self._unanswered == 0:
                    return
                self._all_answered.clear()
            self._all_answered.wait(self._config.request_timeout_ms / 1000)

    def _encode(
        self, batch: Batch, connection: BrokerConnection, version: int, magic: int
    ) -> bytes:
        codec = self._codec if self._config.compresses(batch.topic) else Codec.NONE
        if version < codec.produce_since:
            taken = [each.label for each in Codec if each and each.produce_since <= version]
            raise UnsupportedCompressionType(
                f"broker {self._broker_id} at {connection.address} does not take "
                f"{codec.label}: set compression.codec to one of {', '.join(taken)}"
            )
        if magic < 2 and any(record[3] for record in batch.records):
            raise UnsupportedForMessageFormat(
                f"message format {magic}, written for broker {self._broker_id} at "
                f"{connection.address}, has no headers: send without headers, or use format 2"
            )
        try:
            return batch.build(
                magic,
                codec,
                self._level,
                produce_version=version,
                transactional=bool(self._config.transactional_id),
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise EncodingFailed(
                f"a batch for topic {batch.topic} cannot be encoded: {error}"
            ) from error

    def _version(self, connection: BrokerConnection) -> tuple[int, int]:
        version = connection.best_version(ApiKey.PRODUCE)
        wanted = self._config.message_format
        newest = 2 if version >= _MAGIC_2_VERSION else 1 if version >= _MAGIC_1_VERSION else 0
        if wanted == "auto" and self._config.idempotence:
            wanted = "2"
        if wanted == "auto":
            return version, newest
        magic = int(wanted)
        if magic > newest:
            raise UnsupportedForMessageFormat(
                f"broker {self._broker_id} at {connection.address} understands message format "
                f"{newest} at most: unset enable.idempotence and message.format={magic}, or use "
                "newer brokers"
            )
        # Later versions carry only format 2.
        return (version if magic == 2 else min(version, _MAGIC_1_VERSION)), magic
