"""The outcome of a batch after an attempt: resolved, sent again, split, or given up.

    no error                      resolved, in the connection's reader task
    already stored (46)           resolved, offset unknown
    too large (10, 18)            split in two; a single message is given up
    no key (2, 87)                split likewise; messages without a key are given up, after 2 only
                                  where the topic is compacted: bytes may have been damaged too
    out of order (45, 59)         again behind an earlier batch; else under a new producer id; a
                                  transaction ends there
    may pass, attempts left       again after the backoff, with fresh metadata
    everything else               given up

Invariant: a batch is completed exactly once for each time it was taken from the accumulator.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.client.topic_settings import CLEANUP, MIN_ISR, topic_settings
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ErrorCode, NetworkError, ZkbrokerError, protocol_error
from zkbroker.measures import TopicTable
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.batch import Batch, next_sequence
from zkbroker.producer.broker_channel import Exchange
from zkbroker.producer.errors import TransactionAborted
from zkbroker.producer.hooks import Hooks
from zkbroker.producer.outcomes import (
    INVALID,
    SEQUENCE_LOST,
    TOO_FEW_REPLICAS,
    TOO_LARGE,
    code_of,
    cure_of,
    gave_up,
    key_required,
    leader_is_away,
    may_pass,
    shortage,
    timed_out,
    too_large,
    why_in_doubt,
)
from zkbroker.producer.queued_messages import Part, SendFuture, futures_of
from zkbroker.producer.send_queue import SendQueue
from zkbroker.producer.transactions import TransactionManager
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_KEPT_FAILURES = 100_000


@dataclass(kw_only=True, eq=False)
class Completion:
    """Decides about batches after an attempt; owned by the sender's loop.

    Args:
        config: of the producer.
        cluster: is refreshed after failures.
        runtime: spawns the refresh, which waits for the network.
        accumulator: takes batches back.
        send_queue: gets the space of resolved messages back.
        hooks: learn the outcomes.
        post: runs a function in the sender's loop.
        transactions: learn of what is given up; None without them.
    """

    config: ProducerConfig
    cluster: Cluster
    runtime: Runtime
    accumulator: Accumulator
    send_queue: SendQueue
    hooks: Hooks
    post: Callable[..., None]
    transactions: TransactionManager | None

    def __post_init__(self) -> None:
        # Held for a moment to resolve a batch, by this loop or by a connection's reader task.
        self._lock = self.runtime.guard()
        self._backoff_s = self.config.retry_backoff_ms / 1000
        self._stale: set[str] = set()
        self._wanted_settings: set[str] = set()
        self._settings: dict[str, Mapping[str, str]] = {}
        # Batches refused without a reason; they wait for their topic's settings.
        self._suspects: list[Batch] = []
        self._refreshing = False
        # Kept until the caller reads them, so that `close` can report unread failures.
        self.failed: deque[SendFuture] = deque(maxlen=_KEPT_FAILURES)
        # Set when the producer closes: from then on every failure is reported, whether read or not.
        self.closing = False
        self.topics = TopicTable()
        self.counts = {
            "sent_messages": 0,
            "sent_bytes": 0,
            "batches": 0,
            "retries": 0,
            "failed_messages": 0,
        }

    def resolve_stored(self, exchange: Exchange) -> None:
        """Resolve the batches that are stored according to the answer; in any task."""
        if exchange.error is not None or not exchange.sent:
            return
        if exchange.response is None:  # acks=0: there will be no answer
            for batch in exchange.batches:
                if batch not in exchange.refused:
                    self._stored(batch, -1, -1)
            return
        by_place = {(batch.topic, batch.partition): batch for batch in exchange.batches}
        for topic in exchange.response.topics:
            for each in topic.partitions:
                found = by_place.get((topic.topic, each.partition))
                if found is not None and each.error_code == ErrorCode.NONE:
                    self._stored(found, each.base_offset, each.log_append_time_ms)

    def _stored(self, batch: Batch, base_offset: int, timestamp_ms: int) -> None:
        with self._lock:
            if batch.resolved:
                return
            self.topics.topic(batch.topic).add(len(batch), batch.size)
            batch.succeed(base_offset, timestamp_ms)
        self.send_queue.release(len(batch), batch.size)
        batch.wake()

    def complete(self, exchange: Exchange) -> None:
        """Take back every batch of an exchange."""
        errors: dict[tuple[str, int], ZkbrokerError] = {}
        if exchange.response is not None:
            for topic in exchange.response.topics:
                for each in topic.partitions:
                    if each.error_code:
                        errors[topic.topic, each.partition] = protocol_error(
                            each.error_code,
                            f"broker {exchange.broker_id}, topic {topic.topic} partition "
                            f"{each.partition}",
                        )
        for batch in exchange.batches:
            if batch.resolved:
                self._resolved(batch)
                continue
            error = (
                exchange.refused.get(batch)
                or exchange.error
                or errors.get((batch.topic, batch.partition))
            )
            if error is None:
                error = NetworkError(f"broker {exchange.broker_id} did not answer for it")
            if exchange.sent:
                batch.doubt = batch.doubt or why_in_doubt(error)
            self._failed(batch, error)

    def _resolved(self, batch: Batch) -> None:
        queue = self.accumulator.remove(batch)
        if batch.error is not None:  # given up while it was in flight
            return
        if batch.numbered:
            queue.stored_sequence = next_sequence(batch.base_sequence, len(batch))
        queue.established = not self.config.idempotence or batch.producer_id == queue.producer_id
        self.counts["sent_messages"] += len(batch)
        self.counts["sent_bytes"] += batch.size
        self.counts["batches"] += 1
        self.hooks.after_send(batch)

    def _failed(self, batch: Batch, error: BaseException) -> None:
        code = code_of(error)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._stored(batch, -1, -1)
            self._resolved(batch)
        elif code in TOO_LARGE:
            if len(batch) == 1:
                self.give_up(batch, too_large(batch.topic, batch.size))
            else:
                self._split(batch)
        elif code in INVALID and batch.keyless():
            self._handle_keyless(batch, error)
        elif code in SEQUENCE_LOST and batch.numbered:
            self._handle_out_of_order(batch, error)
        else:
            self.failed_attempt(batch, error)

    def failed_attempt(self, batch: Batch, error: BaseException) -> None:
        """Count a failure of a batch that is in flight; send it again or give it up."""
        batch.last_error = error
        if not may_pass(error):
            self.give_up(batch, error)
            return
        batch.attempts += 1
        now = time.monotonic()
        if not leader_is_away(error) or not self._waits_for_leader(batch, now):
            batch.counted_attempts += 1
        if batch.counted_attempts > self.config.retries:
            cure = self._cure(batch, error)
            self.give_up(batch, gave_up(batch.where, batch.attempts, error, batch.doubt, cure))
            return
        self.counts["retries"] += 1
        batch.not_before = now + self._backoff_s
        self.accumulator.put_back(batch)
        logger.info(
            "retry topic=%s partition=%s messages=%d attempt=%d error=%s",
            batch.topic,
            batch.partition,
            len(batch),
            batch.attempts,
            error,
        )
        if code_of(error) in TOO_FEW_REPLICAS and batch.topic not in self._settings:
            self._wanted_settings.add(batch.topic)
        self.refresh(batch.topic)

    def _cure(self, batch: Batch, error: BaseException) -> str:
        if code_of(error) not in TOO_FEW_REPLICAS:
            return cure_of(error, batch.topic)
        known = self.cluster.known_partitions(batch.topic) or ()
        info = next((each for each in known if each.partition == batch.partition), None)
        return shortage(info, self._settings.get(batch.topic, {}).get(MIN_ISR))

    def _waits_for_leader(self, batch: Batch, now: float) -> bool:
        """Whether a failure without a leader is not counted yet: an election takes a while."""
        if batch.leader_away_since is None:
            batch.leader_away_since = now
        wait_s = self.config.leader_wait_ms / 1000
        return now < batch.leader_away_since + wait_s

    def _split(self, batch: Batch) -> None:
        logger.info(
            "split topic=%s partition=%d messages=%d", batch.topic, batch.partition, len(batch)
        )
        self.accumulator.put_back(batch, batch.split())

    def _handle_keyless(self, batch: Batch, error: BaseException) -> None:
        """Handle a batch with messages without a key that was refused as invalid."""
        known = self._settings.get(batch.topic)
        if code_of(error) is ErrorCode.INVALID_RECORD or "compact" in (known or {}).get(
            CLEANUP, ""
        ):
            if batch.keyless() == len(batch):
                self.give_up(batch, key_required(batch.where, error))
            else:
                self._split(batch)
        elif known is None:
            batch.last_error = error
            # It waits for `_refreshed`, which has the settings unless they cannot be read.
            batch.not_before = math.inf
            self.accumulator.put_back(batch)
            self._suspects.append(batch)
            self._wanted_settings.add(batch.topic)
            self.refresh(batch.topic)
        else:
            self.failed_attempt(batch, error)

    def _retry_or_give_up(self, suspects: Sequence[Batch]) -> None:
        for batch in suspects:
            error = batch.last_error
            if batch.resolved or error is None:
                continue
            # Sent again, unless a compacted topic refused all of its messages.
            batch.not_before = time.monotonic()
            compacted = "compact" in self._settings.setdefault(batch.topic, {}).get(CLEANUP, "")
            if compacted and batch.keyless() == len(batch):
                self.give_up(batch, key_required(batch.where, error))

    def _handle_out_of_order(self, batch: Batch, error: BaseException) -> None:
        queue = self.accumulator.queues[batch.topic, batch.partition]
        earlier = any(each.ordinal < batch.ordinal for each in (*queue.in_flight, *queue.batches))
        # Refused, so no attempt stored it: this one not, and no earlier one, by brokers' order.
        batch.doubt = ""
        if self.transactions is not None and not earlier:
            lost_state = code_of(error) is ErrorCode.UNKNOWN_PRODUCER_ID
            if not lost_state or queue.stored_sequence != queue.began_at:
                # The transaction failed when a batch was given up; else stored messages are lost.
                self.give_up(batch, self.transactions.unwanted() or error)
                return
        if not earlier and batch.producer_id == queue.producer_id and not queue.renumber:
            logger.warning(
                "sequence lost topic=%s partition=%d error=%s", batch.topic, batch.partition, error
            )
            queue.renumber = True
        if not earlier:
            batch.number(-1, -1, -1)
        self.accumulator.put_back(batch)

    def give_up(self, batch: Batch, error: BaseException) -> None:
        """Resolve a batch, waiting or in flight, to an error, unless it is resolved."""
        with self._lock:
            if batch.resolved:
                return
            batch.fail(error)
        self.send_queue.release(len(batch), batch.size)
        if self.transactions is not None:
            self.transactions.not_stored(error, uncertain=bool(batch.doubt))
        batch.wake()
        if batch.numbered and self.transactions is None:
            self.accumulator.queues[batch.topic, batch.partition].renumber = True
        self.accumulator.discard(batch)
        self._note_failures(batch.futures(), error, batch.where)
        self.hooks.after_send(batch)

    def fail(self, parts: Sequence[Part], error: BaseException) -> None:
        """Resolve messages outside batches to an error."""
        futures = futures_of(parts)
        if not futures:
            return
        for queued, indices in parts:
            queued.fail(indices, error)
            self.send_queue.release(len(indices), sum(queued.sizes[index] for index in indices))
        if self.transactions is not None:
            self.transactions.not_stored(error, uncertain=False)
        self._note_failures(futures, error, f"topic {futures[0].queued.topic}")
        self.hooks.after_failure(futures, error)

    def _note_failures(
        self, futures: Sequence[SendFuture], error: BaseException, where: str
    ) -> None:
        self.counts["failed_messages"] += len(futures)
        if isinstance(error, TransactionAborted):
            return  # the calls of its transaction raise the reason once
        for future in futures if self.transactions is None else ():
            if self.closing:
                future.queued.observed.discard(future.index)
            if future.index not in future.queued.observed:
                self.failed.append(future)
        logger.error("delivery failed %s messages=%d error=%s", where, len(futures), error)

    # -- time

    def expire(self, before: float) -> None:
        """Give up the waiting batches that began before a point in time."""
        for batch in list(self.accumulator.waiting()):
            if batch.first_at < before:
                self.give_up(
                    batch,
                    timed_out(
                        batch.where,
                        self.config.delivery_timeout_ms,
                        batch.last_error,
                        batch.doubt,
                    ),
                )

    # -- metadata

    def refresh(self, topic: str) -> None:
        """Start to read the metadata of a topic again; does not wait."""
        self._stale.add(topic)
        if not self._refreshing:
            self._refreshing = True
            topics, self._stale = self._stale, set()
            unset, self._wanted_settings = self._wanted_settings, set()
            suspects, self._suspects = self._suspects, []
            self.runtime.spawn(self._refresh_now, topics, unset, suspects, name="producer-refresh")

    def _refresh_now(self, topics: set[str], unset: set[str], suspects: Sequence[Batch]) -> None:
        found: Mapping[str, Mapping[str, str]] = {}
        try:
            self.cluster.refresh(topics)
            if unset:
                found = self.cluster.ask_any(
                    lambda connection, wait_s: topic_settings(
                        connection, unset, (MIN_ISR, CLEANUP), wait_s
                    )
                )
        except ZkbrokerError as error:
            # Batches keep failing with errors of their own until it works again.
            logger.warning("metadata refresh failed error=%s", error)
        self.post(self._refreshed, found, suspects)

    def _refreshed(self, found: Mapping[str, Mapping[str, str]], suspects: Sequence[Batch]) -> None:
        self._settings |= found
        self._retry_or_give_up(suspects)
        self._refreshing = False
        if self._stale:
            self.refresh(self._stale.pop())
