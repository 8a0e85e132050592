"""The producer: one class, sync and async, on threads and on greenlets.

Invariant: every message that `send` accepted ends as stored or as an error that is reported: by
its future, by the exception of a sync `send`, by the callback handler, or by the exception of
`close`.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from zkbroker.client import Cluster
from zkbroker.client.group_offsets import Committed
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ClientError, ConfigError, RequestTimedOut
from zkbroker.measures import Family
from zkbroker.producer import process_exit
from zkbroker.producer.assembly import make_cluster, make_hooks
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.producer.encoded_batch import EncodedBatch
from zkbroker.producer.encoders import DefaultEncoder
from zkbroker.producer.errors import ForkedProducer, MessageTooLarge, Undelivered
from zkbroker.producer.generation import ProducerGeneration
from zkbroker.producer.message import (
    KeyedMessage,
    RecordMetadata,
    all_messages,
    is_all_bytes,
)
from zkbroker.producer.outcome_waits import failures_of, shut_down, wait_for
from zkbroker.producer.queued_messages import SendFuture
from zkbroker.producer.sender import Sender
from zkbroker.producer.transactions import HasGroup, TransactionManager
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.runtime.forks import abandon_in_child, made_before_fork
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_ABORT_SHARE = 0.1


class Producer:
    """Sends messages; safe to use from many tasks of its runtime.

    Args:
        config: a `ProducerConfig`, or the settings for another generation of Kafka.
        runtime: `threads`, `gevent` or a `Runtime`.
        cluster: a started cluster to use instead of the configured one; not closed here.
        partitioner: instead of `partitioner.class`; like the others an object, a class or a name.
        encoder: instead of `serializer.class`.
        key_encoder: instead of `key.serializer.class`.
        event_handler: instead of `event.handler`.
        callback_handler: instead of `callback.handler`.
        interceptors: instead of `interceptor.classes`.

    Raises:
        ConfigError: a plug-in cannot be used.
        ZkbrokerError: neither ZooKeeper nor a broker can be reached; says what to change.
    """

    role = "producer"

    def __init__(
        self,
        config: ProducerConfig | ProducerGeneration,
        *,
        runtime: str | Runtime = "threads",
        cluster: Cluster | None = None,
        partitioner: object = None,
        encoder: object = None,
        key_encoder: object = None,
        event_handler: object = None,
        callback_handler: object = None,
        interceptors: Sequence[object] = (),
    ) -> None:
        other = None if isinstance(config, ProducerConfig) else config
        config = config if isinstance(config, ProducerConfig) else config.producer()
        if other is not None and partitioner is None:
            partitioner = other.make_partitioner()
        self.config = config
        self._runtime = get_runtime(runtime)
        self._sync = config.producer_type == "sync"
        self._hooks = make_hooks(
            config,
            self._runtime,
            partitioner=partitioner,
            encoder=encoder,
            key_encoder=key_encoder,
            event_handler=event_handler,
            callback_handler=callback_handler,
            interceptors=interceptors,
        )
        self._observed = (
            self._hooks.callback_handler is not None or len(self._hooks.interceptors) > 0
        )
        self._enqueue_timeout_s = (
            None if config.enqueue_timeout_ms < 0 else config.enqueue_timeout_ms / 1000
        )
        self._owns_cluster = cluster is None
        if cluster is None:
            made = (
                make_cluster(config, self._runtime)
                if other is None
                else other.make_cluster(self._runtime)
            )
            cluster = made.start()
        self._cluster = cluster
        channels = BrokerChannel if other is None else other.channels()
        self._transactions = (
            TransactionManager(config, self._cluster, self._runtime)
            if config.transactional_id
            else None
        )
        self._sender = Sender(
            config, self._runtime, self._cluster, self._hooks, self._transactions, channels
        )
        self._put = self._sender.send_queue.put
        plain = (
            not self._sync
            and not self._observed
            and self._hooks.encoder.__class__ is DefaultEncoder
            and self._hooks.key_encoder.__class__ is DefaultEncoder
        )
        self._put_plain = self._sender.send_queue.put_plain if plain else None
        self._closed = self._forked = False
        self._closing = self._runtime.lock()
        process_exit.enlist(self)
        abandon_in_child(self)

    # -- sending

    def send(self, messages: KeyedMessage | Sequence[KeyedMessage]) -> Any:
        """Send one message or many.

        Args:
            messages: one `KeyedMessage`, or a sequence of them.

        Returns:
            In sync mode `RecordMetadata` when the broker acknowledged (a list for a sequence); in
            async mode a `SendFuture` (a list for a sequence) when the message is queued.

        Raises:
            SendFailed: sync; lists the messages that were sent and those that were not.
            QueueFull: async; the queue stayed full for `queue.enqueue.timeout.ms`.
            MessageTooLarge: the message is larger than `max.request.size`.
            EncodingFailed: an encoder failed, or a field of the message cannot be stored.
            TypeError: an item is not a message; nothing was sent.
            ProducerClosed: the producer was closed.
            ForkedProducer: the producer was made before a fork.
            TransactionError: with a `transactional.id`; no transaction is open, or it failed.
        """
        if self._put_plain is not None:
            future = self._put_plain(messages)
            if future is not None:
                return future
        if messages.__class__ is KeyedMessage or isinstance(messages, KeyedMessage):
            future = self._enqueue(messages)
            return future if not self._sync else wait_for([future])[0]
        messages = all_messages(messages)
        if self._sync:
            return self._send_all(messages)
        if self._put_plain is None:
            return [self._enqueue(message) for message in messages]
        return [self._put_plain(message) or self._enqueue(message) for message in messages]

    def _enqueue(self, message: KeyedMessage, within_s: float | None = None) -> SendFuture:
        """Enqueue a message; wait for space as configured, but at most `within_s`."""
        hooks = self._hooks
        wait_s = self._enqueue_timeout_s
        if within_s is not None:
            wait_s = within_s if wait_s is None else min(wait_s, within_s)
        if self._observed:
            message = hooks.on_send(message)
        record, size = hooks.encode(message)
        if size > self.config.max_request_bytes:
            raise MessageTooLarge(
                f"a message of {size} bytes to topic {message.topic} is larger than "
                f"max.request.size={self.config.max_request_bytes}: raise that, or send less"
            )
        if not self._observed:
            # As on the fast path, a message that is no more than its record is not kept.
            short = self._put_plain is not None and is_all_bytes(message)
            kept = None if short else message
            return self._put(message.topic, record, size, kept, wait_s)
        try:
            future = self._put(message.topic, record, size, message, wait_s)
        except ClientError:
            hooks.enqueued(message, added=False)
            raise
        hooks.enqueued(message, added=True)
        return future

    def send_batch(self, batch: EncodedBatch) -> None:
        """Send a whole batch to its partition; for callers that pass on encoded records.

        It never waits and counts against no bound: the caller has one. Batches of one partition are
        stored in the order of the calls. The batch reports its outcome.

        Raises:
            ProducerClosed: the producer was closed.
        """
        self._sender.submit(batch)

    def _send_all(self, messages: Sequence[KeyedMessage]) -> list[RecordMetadata]:
        outcomes: list[SendFuture] = []
        refused: list[tuple[KeyedMessage, BaseException]] = []
        for message in messages:
            try:
                outcomes.append(self._enqueue(message))
            except ClientError as error:
                refused.append((message, error))
        return wait_for(outcomes, refused)

    # -- transactions

    def init_transactions(self, timeout_s: float | None = None) -> None:
        """End an open transaction of the transactional id, and fence its previous producer.

        Without this call the first `begin` does it. A program that continues from committed offsets
        calls it before it reads them, so that the previous producer cannot commit any more.

        Args:
            timeout_s: how long to try; `delivery.timeout.ms` by default, as for all of these calls.

        Raises:
            TransactionFatal: the brokers refuse; the error says why.
            ProtocolError: the coordinator could not be reached in time; may be called again.
        """
        self._transactional.init(timeout_s)

    def begin(self) -> None:
        """Begin a transaction: readers see all messages until `commit` together, or none.

        Raises:
            InvalidTransactionState: one is open.
            TransactionFatal: the producer is unusable, for instance because another took its place.
        """
        self._transactional.begin()

    def send_offsets(
        self,
        offsets: Mapping[PartitionKey, int | Committed],
        group: str | HasGroup,
        timeout_s: float | None = None,
    ) -> None:
        """Commit offsets of a consumer group with the transaction, or not at all.

        Args:
            offsets: the next offset to consume of each partition.
            group: its id, or an object with a `group_id`, such as a `GroupConsumer`.
            timeout_s: how long to try.

        Raises:
            TransactionAbortable: they were refused; call `abort`.
            TransactionFatal: as of `begin`.
            InvalidTransactionState: no transaction is open.
        """
        self._transactional.send_offsets(offsets, group, timeout_s)

    def commit(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent is stored, and commit.

        Raises:
            TransactionAbortable: a message was not stored, as the error says; call `abort`.
            TransactionFatal: as of `begin`.
            InvalidTransactionState: no transaction is open.
            ProtocolError: no answer in time, so it may be committed or not; call `commit` again.
        """
        self._transactional.commit(timeout_s)

    def abort(self, timeout_s: float | None = None) -> None:
        """Abort: drop unsent messages, and make readers of committed messages skip the rest.

        Raises:
            TransactionFatal: as of `begin`.
            InvalidTransactionState: no transaction is open.
            ProtocolError: no answer in time; call `abort` again.
        """
        self._transactional.abort(timeout_s)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context that begins a transaction and commits it, or aborts on an exception."""
        return self._transactional.transaction()

    @property
    def _transactional(self) -> TransactionManager:
        if self._transactions is None:
            raise ConfigError("the producer has no transactions: set transactional.id")
        return self._transactions

    # -- ending

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all queued messages without lingering, and wait for their outcome.

        Args:
            timeout_s: how long to wait in all; by default as long as delivery may take.

        Raises:
            Undelivered: some messages failed.
            RequestTimedOut: the outcome is not known in time.
            ForkedProducer: the producer was made before a fork.
        """
        if self._forked:
            # Only the parent has the task that would answer.
            raise ForkedProducer(made_before_fork("producer"))
        wait_s = timeout_s if timeout_s is not None else self.config.delivery_timeout_ms / 1000 + 5
        deadline = time.monotonic() + wait_s
        self._sender.hurry(1)
        try:
            all_queued = self._sender.unresolved(wait_s)
            if all_queued is None:
                raise RequestTimedOut(f"the queue could not be flushed within {wait_s:g} s")
            failed = failures_of(all_queued, deadline)
        finally:
            self._sender.hurry(-1)
        if failed:
            raise Undelivered(failed)

    def close(self, timeout_s: float | None = None) -> None:
        """Send the queued messages and close, within the time-out. May be called twice.

        Args:
            timeout_s: how long to wait; `close.timeout.ms` by default.

        Raises:
            Undelivered: messages could not be delivered, or failed before without their futures
                being read.
            TransactionError: a transaction failed for a reason that no call has raised yet; it is
                aborted.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
        process_exit.dismiss(self)
        limit_s = self.config.close_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        abort_s = limit_s * _ABORT_SHARE
        unraised = None
        if self._transactions is not None:
            unraised = self._transactions.close(limit_s - abort_s)
        for message in self._hooks.last_messages():
            try:
                self._enqueue(message, max(0.0, deadline - abort_s - time.monotonic()))
            except ClientError:
                logger.exception("last message refused topic=%s", message.topic)
        limit_s = max(abort_s, deadline - time.monotonic())
        failed = shut_down(self._sender, self._cluster if self._owns_cluster else None, limit_s)
        if failed:
            self._hooks.undelivered(failed)
        self._hooks.close()
        if unraised is not None:
            raise unraised
        if failed:
            raise Undelivered(failed)

    def drain_at_exit(self) -> None:
        """Close; called when the interpreter exits."""
        try:
            self.close()
        except ClientError as error:
            # No caller is left to catch the error.
            logger.error("messages lost at exit error=%s", error)  # noqa: TRY400

    def abandon_after_fork(self) -> None:
        """Refuse to send; called in the child of a fork."""
        self._closed = self._forked = True
        if self._transactions is not None:
            self._transactions.state.abandon(self._runtime.guard())
        self._sender.send_queue.abandon(ForkedProducer(made_before_fork("producer")))

    def metrics(self) -> dict[str, int]:
        """Return counts of messages, bytes, batches, retries, failures and open messages."""
        found = self._sender.metrics()
        if self._transactions is not None:
            found["transactions_committed"] = self._transactions.state.committed
            found["transactions_aborted"] = self._transactions.state.aborted
        return found

    @property
    def client_id(self) -> str:
        """The id that its requests carry."""
        return self.config.client_id

    def measures(self) -> Iterator[Family]:
        """Yield what `zkbroker.monitoring` shows, under the names of the JMX beans."""
        return self._sender.measures()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
