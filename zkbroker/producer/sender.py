"""The producer's owner loop: takes messages off the queue and sees every batch through.

    inbox ─▶ handlers ─▶ router ─▶ accumulator ─▶ link of the leader ─▶ broker
                                       ▲                                  │
                                       └──────── again, or resolved ◀─────┘

Invariants: only this loop touches router, accumulator and numbering; other tasks post functions to
it. Nothing in it waits for the network. Every future that entered the inbox is resolved exactly
once, at the latest when `abort` is run or the loop ends.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from zkbroker.config.producer import ProducerConfig
from zkbroker.discovery import Cluster
from zkbroker.errors import ClientError, LeaderNotAvailable, NetworkError
from zkbroker.measures import Family, SharedHistogram
from zkbroker.producer.accumulator import Accumulator, PartitionQueue
from zkbroker.producer.batch import Batch
from zkbroker.producer.inbox import Inbox
from zkbroker.producer.link import BrokerLink, Exchange
from zkbroker.producer.numbering import Numbering
from zkbroker.producer.routing import Router
from zkbroker.producer.run import Run, SendFuture, whole
from zkbroker.producer.settling import Settling
from zkbroker.producer.stages import Stages
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_CHECK_S = 0.5


class Sender:
    """Owns what is under way.

    Args:
        config: of the producer.
        runtime: runs the loop and its helpers.
        cluster: started.
        stages: the user's handlers and the partitioner.
    """

    def __init__(
        self, config: ProducerConfig, runtime: Runtime, cluster: Cluster, stages: Stages
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._cluster = cluster
        self._stages = stages
        self._linger_s = config.linger_ms / 1000 if config.producer_type == "async" else 0.0
        self._wake = runtime.event()
        self._events: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.inbox = Inbox(runtime, self._wake, config.queue_max_messages, config.queue_max_bytes)
        pipelined = config.idempotence or config.retries == 0
        self._accumulator = Accumulator(
            linger_s=self._linger_s,
            batch_messages=config.batch_messages,
            batch_max_bytes=config.batch_max_bytes,
            max_in_flight=config.max_in_flight if pipelined else 1,
        )
        self._numbering = (
            Numbering(
                cluster, runtime, config.retry_backoff_ms / 1000, self.post, self._no_producer_ids
            )
            if config.idempotence
            else None
        )
        self._settling = Settling(
            config, cluster, runtime, self._accumulator, self.inbox, stages, self.post
        )
        stages.bind(self.inbox, self._settling.fail)
        self._router = Router(
            cluster=cluster,
            runtime=runtime,
            accumulator=self._accumulator,
            partitioner=stages.partitioner,
            key_encoder=stages.key_encoder,
            retries=config.retries,
            backoff_s=config.retry_backoff_ms / 1000,
            lookup_timeout_s=config.request_timeout_ms / 1000,
            post=self.post,
            fail=self._settling.fail,
        )
        self._links: dict[int, BrokerLink] = {}
        self._in_flight: set[Exchange] = set()
        self._request_times = SharedHistogram()
        self._hurry = 0
        self._closing = False
        self._stopped = False
        self._next_check = 0.0
        self.finished = runtime.event()
        self._unwatch = cluster.watch(self._wake.set)
        self._task = runtime.spawn(self._run, name="producer-sender")

    # -- for other tasks

    def post(self, function: Callable[..., None], *args: Any) -> None:
        """Have `function(*args)` run in the loop."""
        self._events.append((function, args))
        self._wake.set()

    def unresolved(self, timeout_s: float) -> list[Run] | None:
        """Return the runs with open messages; None when the loop does not answer in time."""
        answer: list[Run] = []
        told = self._runtime.event()

        def collect() -> None:
            answer.extend(self._open_runs())
            told.set()

        self.post(collect)
        return answer if told.wait(timeout_s) else None

    def hurry(self, by: int) -> None:
        """Let nothing linger from now on (`by=1`), until that is taken back (`by=-1`)."""
        self.post(self._change_hurry, by)

    def begin_close(self) -> None:
        """Send what there is without lingering, then end the loop."""
        self.post(self._begin_close)

    def abort(self, error: ClientError) -> None:
        """Fail everything that is not resolved, and end the loop."""
        self.post(self._abort, error)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the loop and its links."""
        deadline = time.monotonic() + timeout_s
        ended = self._task.join(timeout_s)
        for link in list(self._links.values()):
            ended &= link.join(max(0.0, deadline - time.monotonic()))
        return ended

    def metrics(self) -> dict[str, int]:
        """Return counts since the start, and what is under way now."""
        return {
            **self._settling.counts,
            "unresolved_messages": self.inbox.open_messages,
            "unresolved_bytes": self.inbox.open_bytes,
            "requests_in_flight": len(self._in_flight),
            "requests": self._request_times.count,
            "dropped_messages": self.inbox.dropped,
        }

    def measures(self) -> Iterator[Family]:
        """Yield every measure as it stands now."""
        counts = self._settling.counts
        yield from self._settling.topics.families()
        yield Family.single("DroppedMessagesPerSec", self.inbox.dropped)
        yield Family.single("ResendsPerSec", counts["retries"])
        yield Family.single("FailedSendsPerSec", counts["failed_messages"])
        yield Family.single("ProducerQueueSize", self.inbox.open_messages)
        yield Family.single("ProducerRequestRateAndTimeMs", self._request_times)

    @property
    def failed(self) -> Collection[SendFuture]:
        """The futures that failed, the latest ones where they are many."""
        return self._settling.failed

    # -- the loop

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wake.clear()
                now = time.monotonic()
                self._step(now)
                if self._stopped:
                    break
                timeout_s = self._sleep_s(now)
                if (timeout_s is None or timeout_s > 0) and self.inbox.rest(self._threshold()):
                    self._wake.wait(timeout_s)
        except BaseException as error:
            # A defect, a handler's exception, or Ctrl-C in this greenlet: nothing may hang on it,
            # and nobody may send on.
            broken = ClientError(f"the producer stopped on an unexpected error: {error!r}")
            self.inbox.refuse(broken)
            self._fail_all(broken)
            raise
        finally:
            self._unwatch()
            for link in self._links.values():
                link.close()
            self.finished.set()

    def _step(self, now: float) -> None:
        while self._events:
            function, args = self._events.popleft()
            function(*args)
        runs = self.inbox.drain()
        if runs:
            self._stages.dequeue([whole(run) for run in runs], self._router.route)
        self._router.step(now)
        if now >= self._next_check:
            self._check(now)
        self._dispatch(now)
        if self._closing and not self.inbox.open_messages and not self._in_flight:
            self._stopped = True

    def _lingers_not(self) -> bool:
        return self._hurry > 0 or self._closing or self.inbox.starved or not self._linger_s

    def _threshold(self) -> int:
        if self._lingers_not() or self._accumulator.empty:
            return 1
        return self._config.batch_messages

    def _sleep_s(self, now: float) -> float | None:
        deadlines = [
            self._accumulator.next_deadline(now),
            self._router.next_deadline(now),
            self._numbering.next_deadline(now) if self._numbering is not None else None,
        ]
        if self.inbox.open_messages:
            deadlines.append(self._next_check)
            if self._threshold() > 1:
                deadlines.append(now + self._linger_s)
        due = [each for each in deadlines if each is not None]
        return max(0.0, min(due) - now) if due else None

    def _dispatch(self, now: float) -> None:
        hurry = self._lingers_not()
        while True:
            by_leader: dict[int, list[PartitionQueue]] = {}
            for queue in self._accumulator.ready(now, hurry=hurry):
                leader = self._cluster.leader(queue.topic, queue.partition)
                if queue.in_flight and leader != queue.broker_id:
                    continue
                if leader is None:
                    self._no_leader(queue)
                elif self._link(leader).free:
                    by_leader.setdefault(leader, []).append(queue)
            sent = False
            for leader, queues in by_leader.items():
                sent |= self._send(leader, queues, now)
            if not sent:
                return

    def _link(self, broker_id: int) -> BrokerLink:
        link = self._links.get(broker_id)
        if link is None:
            link = self._links[broker_id] = BrokerLink(
                broker_id, self._cluster, self._runtime, self._config, self._exchange_done
            )
        return link

    def _send(self, leader: int, queues: Sequence[PartitionQueue], now: float) -> bool:
        batches: list[Batch] = []
        size = 0
        for queue in queues:
            batch = queue.batches[0]
            if batches and size + batch.size > self._config.max_request_bytes:
                break
            if not batch.announced and not self._stages.before_send(batch):
                self._accumulator.discard(batch)
                continue
            if self._numbering is not None and not self._numbering.assign(queue, batch, now):
                continue
            queue.broker_id = leader
            batches.append(self._accumulator.take(queue))
            size += batch.size
        if not batches:
            return False
        exchange = Exchange(leader, batches)
        self._in_flight.add(exchange)
        self._link(leader).submit(exchange)
        return True

    def _no_leader(self, queue: PartitionQueue) -> None:
        batch = self._accumulator.take(queue)
        self._settling.failed_attempt(
            batch,
            LeaderNotAvailable(f"partition {queue.partition} of topic {queue.topic} has no leader"),
        )

    def _exchange_done(self, exchange: Exchange) -> None:
        # In the connection's reader task: what was stored is resolved here, without a detour.
        if exchange.sent and exchange.error is None:
            seconds = time.monotonic() - exchange.started_at
            self._request_times.observe(seconds)
        self._settling.resolve_stored(exchange)
        self.post(self._settle, exchange)

    def _settle(self, exchange: Exchange) -> None:
        self._in_flight.discard(exchange)
        self._links[exchange.broker_id].outstanding -= 1
        self._settling.settle(exchange)

    def _check(self, now: float) -> None:
        self._next_check = now + _CHECK_S
        timeout_s = self._config.request_timeout_ms / 1000
        for exchange in list(self._in_flight):
            if exchange.connection is not None and now > exchange.started_at + timeout_s:
                exchange.connection.close(
                    NetworkError(
                        f"broker {exchange.broker_id} at {exchange.connection.address} did not "
                        f"answer within request.timeout.ms={self._config.request_timeout_ms}"
                    )
                )
        before = now - self._config.delivery_timeout_ms / 1000
        self._router.expire(before, self._settling.timed_out)
        self._settling.expire(before)

    # -- ends

    def _open_runs(self) -> list[Run]:
        runs = dict.fromkeys(self._router.parked())
        for batch in self._accumulator.unresolved():
            if not batch.resolved:
                runs.update(dict.fromkeys(run for run, _ in batch.parts))
        runs.update(dict.fromkeys(self.inbox.peek()))
        return list(runs)

    def _change_hurry(self, by: int) -> None:
        self._hurry += by

    def _begin_close(self) -> None:
        self._closing = self._settling.closing = self._stages.closing = True

    def _abort(self, error: ClientError) -> None:
        self._fail_all(error)
        self._stopped = True

    def _fail_all(self, error: ClientError) -> None:
        self._settling.fail([whole(run) for run in self.inbox.drain()], error)
        self._settling.fail(self._router.forget_all(), error)
        for batch in list(self._accumulator.unresolved()):
            if not batch.resolved:
                self._settling.give_up(batch, error)

    def _no_producer_ids(self, error: BaseException) -> None:
        for batch in list(self._accumulator.waiting()):
            if not batch.numbered:
                self._settling.give_up(batch, error)
