"""The dispatcher: it sends due batches to the leaders of their partitions.

    accumulator ─▶ batches by leader ─▶ channel of the leader ─▶ broker
         ▲                                                         │
         └──────────── again (completion) ◀── exchange done ◀──────┘

Invariants: only the sender's loop uses it, except `_exchange_done`; nothing here waits for the
network. Each exchange is completed exactly once.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zkbroker.client import Cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import NetworkError
from zkbroker.measures import SharedHistogram
from zkbroker.producer.accumulator import Accumulator, PartitionQueue
from zkbroker.producer.batch import Batch
from zkbroker.producer.broker_channel import BrokerChannel, Exchange
from zkbroker.producer.completion import Completion
from zkbroker.producer.hooks import Hooks
from zkbroker.producer.sequences import SequenceNumbers
from zkbroker.producer.transactions import TransactionManager
from zkbroker.runtime import Runtime

_MOVED_GRACE_S = 0.5
_UNANSWERED_S = 2.0
"""How long a broker may take to answer before the leaders are looked up again."""


@dataclass(kw_only=True, eq=False)
class ExchangeDispatcher:
    """The channels to brokers and the exchanges in flight on them.

    `sequences` and `transactions` are None where the producer has none; `post` runs a function in
    the sender's loop; `make_channel` takes the arguments of `BrokerChannel`.
    """

    config: ProducerConfig
    runtime: Runtime
    cluster: Cluster
    hooks: Hooks
    accumulator: Accumulator
    completion: Completion
    sequences: SequenceNumbers | None
    transactions: TransactionManager | None
    post: Callable[..., None]
    make_channel: Callable[..., BrokerChannel]
    in_flight: set[Exchange] = field(default_factory=set, init=False)
    """Exchanges without an outcome."""
    request_times: SharedHistogram = field(default_factory=SharedHistogram, init=False)
    _channels: dict[int, BrokerChannel] = field(default_factory=dict, init=False)

    def close(self) -> None:
        """End the channels after the submitted exchanges."""
        for channel in self._channels.values():
            channel.close()

    def join(self, deadline: float) -> bool:
        """Wait for the channels to end; False when one still runs at the deadline."""
        ended = True
        for channel in list(self._channels.values()):
            ended &= channel.join(max(0.0, deadline - time.monotonic()))
        return ended

    def dispatch(self, now: float, *, hurry: bool) -> None:
        """Send the due batches.

        Args:
            now: `time.monotonic()`.
            hurry: whether lingering batches are sent too.
        """
        while True:
            by_leader: dict[int, list[PartitionQueue]] = {}
            for queue in self.accumulator.ready(now, hurry=hurry):
                leader = self.cluster.leader(queue.topic, queue.partition)
                if queue.in_flight and leader != queue.broker_id:
                    continue
                if leader is None:
                    self.completion.failed_attempt(
                        self.accumulator.take(queue),
                        self.cluster.no_leader(queue.topic, queue.partition),
                    )
                elif self._channel(leader).free:
                    by_leader.setdefault(leader, []).append(queue)
            sent = False
            for leader, queues in by_leader.items():
                sent |= self._send(leader, queues, now)
            if not sent:
                break
        if self.transactions is not None:
            self.transactions.add_wanted()

    def _channel(self, broker_id: int) -> BrokerChannel:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = self.make_channel(
                broker_id, self.cluster, self.runtime, self.config, self._exchange_done
            )
        return channel

    def _send(self, leader: int, queues: Sequence[PartitionQueue], now: float) -> bool:
        batches: list[Batch] = []
        size = 0
        for queue in queues:
            batch = queue.batches[0]
            if batches and size + batch.size > self.config.max_request_bytes:
                break
            if not batch.announced and not self.hooks.before_send(batch):
                self.accumulator.discard(batch)
                continue
            if self.transactions is not None and not self._admitted(self.transactions, batch):
                continue
            if self.sequences is not None and not self.sequences.assign(queue, batch, now):
                continue
            queue.broker_id = leader
            batches.append(self.accumulator.take(queue))
            size += batch.size
        if not batches:
            return False
        exchange = Exchange(leader, batches)
        self.in_flight.add(exchange)
        self._channel(leader).submit(exchange)
        return True

    def _admitted(self, transactions: TransactionManager, batch: Batch) -> bool:
        """Whether a batch may be sent now; one of a failed transaction is given up."""
        if batch.numbered:
            return True
        error = transactions.unwanted()
        if error is not None:
            self.completion.give_up(batch, error)
            return False
        return transactions.admits((batch.topic, batch.partition))

    def _exchange_done(self, exchange: Exchange) -> None:
        # In the connection's reader task: stored batches are resolved here, without a detour.
        if exchange.sent and exchange.error is None:
            self.request_times.observe(time.monotonic() - exchange.started_at)
        self.completion.resolve_stored(exchange)
        self.post(self._complete, exchange)

    def _complete(self, exchange: Exchange) -> None:
        self.in_flight.discard(exchange)
        self._channels[exchange.broker_id].outstanding -= 1
        self.completion.complete(exchange)

    # -- exchanges without an answer

    def check(self, now: float) -> None:
        """Close the connections of exchanges whose answer is overdue."""
        timeout_s = self.config.request_timeout_ms / 1000
        for exchange in list(self.in_flight):
            connection = exchange.connection
            if connection is None:
                continue
            # While a quota mutes the connection, the broker does not read.
            if now > max(exchange.started_at, connection.throttled_until) + timeout_s:
                connection.close(
                    NetworkError(
                        f"broker {exchange.broker_id} at {connection.address} did not "
                        f"answer within request.timeout.ms={self.config.request_timeout_ms}"
                    )
                )
            elif self.sequences is not None and now > exchange.started_at + _MOVED_GRACE_S:
                # Sending again stores nothing twice. A leader may answer late; a hanging one never
                # does.
                if self._moved(exchange):
                    connection.close(
                        NetworkError(f"broker {exchange.broker_id} leads none of it any more")
                    )
                elif now > exchange.started_at + _UNANSWERED_S:
                    self.completion.refresh(exchange.batches[0].topic)

    def _moved(self, exchange: Exchange) -> bool:
        """Whether other brokers lead everything in an exchange by now."""
        leader = self.cluster.leader
        return all(
            leader(batch.topic, batch.partition) not in (exchange.broker_id, None)
            for batch in exchange.batches
        )
