"""The dispatcher: it sends due batches to the leaders of their partitions.

    accumulator ─▶ batches by leader ─▶ channel of the leader ─▶ broker
         ▲                                                         │
         └──────────── again (completion) ◀── exchange done ◀──────┘

Invariants: only the sender's loop uses it, except `_exchange_done`; nothing here waits for the
network. Each exchange is completed exactly once.
"""

import time
from collections.abc import Callable, Sequence

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


class Dispatcher:
    """The channels to brokers and the exchanges in flight on them.

    `sequences` and `transactions` are None where the producer has none; `post` runs a function in
    the sender's loop; `make_channel` takes the arguments of `BrokerChannel`.
    """

    def __init__(
        self,
        *,
        config: ProducerConfig,
        runtime: Runtime,
        cluster: Cluster,
        hooks: Hooks,
        accumulator: Accumulator,
        completion: Completion,
        sequences: SequenceNumbers | None,
        transactions: TransactionManager | None,
        post: Callable[..., None],
        make_channel: Callable[..., BrokerChannel],
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._cluster = cluster
        self._hooks = hooks
        self._accumulator = accumulator
        self._completion = completion
        self._sequences = sequences
        self._transactions = transactions
        self._post = post
        self._make_channel = make_channel
        self._channels: dict[int, BrokerChannel] = {}
        self.in_flight: set[Exchange] = set()
        """Exchanges without an outcome."""
        self.request_times = SharedHistogram()

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
            for queue in self._accumulator.ready(now, hurry=hurry):
                leader = self._cluster.leader(queue.topic, queue.partition)
                if queue.in_flight and leader != queue.broker_id:
                    continue
                if leader is None:
                    self._completion.failed_attempt(
                        self._accumulator.take(queue),
                        self._cluster.no_leader(queue.topic, queue.partition),
                    )
                elif self._channel(leader).free:
                    by_leader.setdefault(leader, []).append(queue)
            sent = False
            for leader, queues in by_leader.items():
                sent |= self._send(leader, queues, now)
            if not sent:
                break
        if self._transactions is not None:
            self._transactions.add_wanted()

    def _channel(self, broker_id: int) -> BrokerChannel:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = self._make_channel(
                broker_id, self._cluster, self._runtime, self._config, self._exchange_done
            )
        return channel

    def _send(self, leader: int, queues: Sequence[PartitionQueue], now: float) -> bool:
        batches: list[Batch] = []
        size = 0
        for queue in queues:
            batch = queue.batches[0]
            if batches and size + batch.size > self._config.max_request_bytes:
                break
            if not batch.announced and not self._hooks.before_send(batch):
                self._accumulator.discard(batch)
                continue
            if self._transactions is not None and not self._admitted(self._transactions, batch):
                continue
            if self._sequences is not None and not self._sequences.assign(queue, batch, now):
                continue
            queue.broker_id = leader
            batches.append(self._accumulator.take(queue))
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
            self._completion.give_up(batch, error)
            return False
        return transactions.admits((batch.topic, batch.partition))

    def _exchange_done(self, exchange: Exchange) -> None:
        # In the connection's reader task: stored batches are resolved here, without a detour.
        if exchange.sent and exchange.error is None:
            self.request_times.observe(time.monotonic() - exchange.started_at)
        self._completion.resolve_stored(exchange)
        self._post(self._complete, exchange)

    def _complete(self, exchange: Exchange) -> None:
        self.in_flight.discard(exchange)
        self._channels[exchange.broker_id].outstanding -= 1
        self._completion.complete(exchange)

    # -- exchanges without an answer

    def check(self, now: float) -> None:
        """Close the connections of exchanges whose answer is overdue."""
        timeout_s = self._config.request_timeout_ms / 1000
        for exchange in list(self.in_flight):
            connection = exchange.connection
            if connection is None:
                continue
            # While a quota mutes the connection, the broker does not read.
            if now > max(exchange.started_at, connection.throttled_until) + timeout_s:
                connection.close(
                    NetworkError(
                        f"broker {exchange.broker_id} at {connection.address} did not "
                        f"answer within request.timeout.ms={self._config.request_timeout_ms}"
                    )
                )
            elif self._sequences is not None and now > exchange.started_at + _MOVED_GRACE_S:
                # Sending again stores nothing twice. A leader may answer late; a hanging one never
                # does.
                if self._moved(exchange):
                    connection.close(
                        NetworkError(f"broker {exchange.broker_id} leads none of it any more")
                    )
                elif now > exchange.started_at + _UNANSWERED_S:
                    self._completion.refresh(exchange.batches[0].topic)

    def _moved(self, exchange: Exchange) -> bool:
        """Whether other brokers lead everything in an exchange by now."""
        leader = self._cluster.leader
        return all(
            leader(batch.topic, batch.partition) not in (exchange.broker_id, None)
            for batch in exchange.batches
        )
