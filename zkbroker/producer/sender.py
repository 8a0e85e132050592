"""The producer's owner loop: takes messages off the queue and resolves every one.

    queue ─▶ handlers ─▶ router ─▶ accumulator ─▶ channel of the leader ─▶ broker
                                       ▲                                  │
                                       └──────── again, or resolved ◀─────┘

Invariants: only this loop touches router, accumulator and sequences; other tasks post functions to
it. It never waits for the network. Every message that entered the queue is resolved exactly once,
at the latest when `abort` is called or the loop ends.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from zkbroker.client import Cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ClientError
from zkbroker.measures import Family
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.batch import Batch
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.producer.completion import Completion
from zkbroker.producer.dispatch import ExchangeDispatcher
from zkbroker.producer.hooks import Hooks
from zkbroker.producer.open_messages import OpenMessages
from zkbroker.producer.queued_messages import Part, QueuedMessages, whole
from zkbroker.producer.routing import Router
from zkbroker.producer.send_queue import SendQueue
from zkbroker.producer.sequences import SequenceNumbers
from zkbroker.producer.transactions import TransactionManager
from zkbroker.runtime import Event, Runtime

logger = logging.getLogger(__name__)

_CHECK_S = 0.5


class Sender:
    """Owns the open messages; `make_channel` takes the arguments of `BrokerChannel`."""

    def __init__(
        self,
        config: ProducerConfig,
        runtime: Runtime,
        cluster: Cluster,
        hooks: Hooks,
        transactions: TransactionManager | None = None,
        make_channel: Callable[..., BrokerChannel] = BrokerChannel,
    ) -> None:
        self._transactions = transactions
        self._config = config
        self._runtime = runtime
        self._cluster = cluster
        self._hooks = hooks
        self._linger_s = config.linger_ms / 1000 if config.producer_type == "async" else 0.0
        self._wake = runtime.event()
        self._events: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.send_queue = SendQueue(
            runtime,
            self._wake,
            config.queue_max_messages,
            config.queue_max_bytes,
            config.max_request_bytes,
        )
        pipelined = config.idempotence or config.retries == 0
        self._accumulator = Accumulator(
            linger_s=self._linger_s,
            batch_messages=config.batch_full_messages,
            batch_limit_messages=config.batch_limit_messages,
            batch_max_bytes=config.batch_max_bytes,
            max_in_flight=config.max_in_flight if pipelined else 1,
        )
        self._completion = Completion(
            config=config,
            cluster=cluster,
            runtime=runtime,
            accumulator=self._accumulator,
            send_queue=self.send_queue,
            hooks=hooks,
            post=self.post,
            transactions=transactions,
        )
        self.failed = self._completion.failed
        """The futures of failed messages, only the latest ones if there are many."""
        hooks.bind(self.send_queue, self._completion.fail)
        self._router = Router(
            config=config,
            cluster=cluster,
            runtime=runtime,
            accumulator=self._accumulator,
            hooks=hooks,
            post=self.post,
            fail=self._completion.fail,
        )
        self._open = OpenMessages(
            cluster=cluster,
            send_queue=self.send_queue,
            router=self._router,
            accumulator=self._accumulator,
            completion=self._completion,
        )
        self._sequences = (
            SequenceNumbers(
                cluster,
                runtime,
                config.retry_backoff_ms / 1000,
                self.post,
                self._open.fail_unnumbered,
            )
            if config.idempotence
            else None
        )
        self._dispatcher = ExchangeDispatcher(
            config=config,
            runtime=runtime,
            cluster=cluster,
            hooks=hooks,
            accumulator=self._accumulator,
            completion=self._completion,
            sequences=self._sequences,
            transactions=transactions,
            post=self.post,
            make_channel=make_channel,
        )
        self._taken: list[QueuedMessages] = []  # they left the queue, and have no place yet
        self._hurry = 0
        self._closing = False
        self._stopped = False
        self._next_check = 0.0
        self.finished = runtime.event()
        self._waiting_for_answers: list[Event] = []
        self._waiting_for_loop: list[Event] = []
        if transactions is not None:
            transactions.bind(self)
        self._unwatch = cluster.watch(self._wake.set)
        self._task = runtime.spawn(self._run, name="producer-sender")

    # -- for other tasks

    def post(self, function: Callable[..., None], *args: Any) -> None:
        """Run `function(*args)` in the loop."""
        self._events.append((function, args))
        self._wake.set()

    def submit(self, batch: Batch) -> None:
        """Send a batch that was made elsewhere, after those of its partition; does not wait.

        Raises:
            ClientError: the producer takes no more messages; says why.
        """
        self.send_queue.reserve(len(batch), batch.size)
        self.post(self._accumulator.append, batch, time.monotonic())

    def unresolved(self, timeout_s: float) -> list[QueuedMessages] | None:
        """Return the lists with open messages; None when the loop does not answer in time.

        The list is empty once the loop has ended: by then every message has an outcome.
        """
        answer: list[QueuedMessages] = []
        collected = self._runtime.event()

        def collect() -> None:
            answer.extend(self._open.queued())
            collected.set()

        # The loop sets it at its end, too, where it may leave `collect` out.
        self._waiting_for_loop.append(collected)
        try:
            self.post(collect)
            known = self.finished.is_set() or collected.wait(timeout_s)
        finally:
            self._waiting_for_loop.remove(collected)
        return answer if known else None

    def wait_for_answers(self, timeout_s: float) -> bool:
        """Wait, without lingering, until no message is open; False when it takes longer."""
        answered = self._runtime.event()
        self._waiting_for_answers.append(answered)
        self.hurry(1)
        try:
            return self.finished.is_set() or answered.wait(timeout_s)
        finally:
            self._waiting_for_answers.remove(answered)
            self.hurry(-1)

    def drop_unsent(self, error: ClientError) -> None:
        """Fail every message that was never sent."""
        self.post(self._open.fail_unsent, error)

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Number batches under the producer id and epoch that a coordinator gave."""
        assert self._sequences is not None
        self.post(self._sequences.identify, producer_id, producer_epoch)

    def count_on(self) -> None:
        """Continue each partition's numbers after the last stored one."""
        self.post(self._continue_numbers)

    def hurry(self, by: int) -> None:
        """Stop lingering (`by=1`), or undo one such call (`by=-1`)."""
        self.post(self._change_hurry, by)

    def begin_close(self) -> None:
        """Send all messages without lingering, then end the loop."""
        self.post(self._begin_close)

    def abort(self, error: ClientError) -> None:
        """Fail every open message, and end the loop."""
        self.post(self._end, self._open.fail, error)

    def cancel(self, after_s: float) -> None:
        """Fail every open message after so many seconds of closing, and end the loop."""
        self.post(self._end, self._open.cancel, after_s)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the loop and its channels."""
        deadline = time.monotonic() + timeout_s
        ended = self._task.join(timeout_s)
        return self._dispatcher.join(deadline) and ended

    def metrics(self) -> dict[str, int]:
        """Return counts since the start, and of open messages."""
        return {
            **self._completion.counts,
            "unresolved_messages": self.send_queue.open_messages,
            "unresolved_bytes": self.send_queue.open_bytes,
            "requests_in_flight": len(self._dispatcher.in_flight),
            "requests": self._dispatcher.request_times.count,
            "dropped_messages": self.send_queue.dropped,
        }

    def measures(self) -> Iterator[Family]:
        """Yield every measure as it stands now."""
        counts = self._completion.counts
        yield from self._completion.topics.families()
        yield Family.single("DroppedMessagesPerSec", self.send_queue.dropped)
        yield Family.single("ResendsPerSec", counts["retries"])
        yield Family.single("FailedSendsPerSec", counts["failed_messages"])
        yield Family.single("ProducerQueueSize", self.send_queue.open_messages)
        yield Family.single("ProducerRequestRateAndTimeMs", self._dispatcher.request_times)

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
                if (timeout_s is None or timeout_s > 0) and self.send_queue.rest(self._threshold()):
                    self._wake.wait(timeout_s)
        except BaseException as error:
            # A defect, a handler's exception, or Ctrl-C in this greenlet: leave no future open, and
            # refuse later calls of `send`.
            broken = ClientError(f"the producer stopped on an unexpected error: {error!r}")
            self.send_queue.refuse(broken)
            self._open.fail(broken)
            self._completion.fail(self._in_between(), broken)
            raise
        finally:
            self._unwatch()
            self._dispatcher.close()
            self.finished.set()
            self._notify_answered()
            for event in list(self._waiting_for_loop):
                event.set()

    def _step(self, now: float) -> None:
        while self._events:
            function, args = self._events.popleft()
            function(*args)
        self._taken = self.send_queue.drain()
        if self._taken:
            self._hooks.dequeue([whole(queued) for queued in self._taken], self._router.route)
            self._taken = []
        self._router.step(now)
        if now >= self._next_check:
            self._check(now)
        self._dispatcher.dispatch(now, hurry=self._without_linger())
        if self.send_queue.open_messages or self._dispatcher.in_flight:
            return
        self._stopped |= self._closing
        if self._transactions is None or not self._transactions.adding:
            self._notify_answered()

    def _in_between(self) -> list[Part]:
        """Return the messages that an error met between two stages; all others have an outcome."""
        return [
            (queued, [index for index in range(len(queued.records)) if not queued.done(index)])
            for queued in dict.fromkeys((*self._taken, *self._router.placing))
        ]

    def _notify_answered(self) -> None:
        for event in list(self._waiting_for_answers):
            event.set()

    def _without_linger(self) -> bool:
        return self._hurry > 0 or self._closing or self.send_queue.starved or not self._linger_s

    def _threshold(self) -> int:
        if self._without_linger() or self._accumulator.empty:
            return 1
        return self._config.batch_full_messages

    def _sleep_s(self, now: float) -> float | None:
        deadlines = [
            self._accumulator.next_deadline(now),
            self._router.next_deadline(now),
            self._sequences.next_deadline(now) if self._sequences is not None else None,
        ]
        if self.send_queue.open_messages:
            deadlines.append(self._next_check)
            if self._threshold() > 1:
                deadlines.append(now + self._linger_s)
        due = [each for each in deadlines if each is not None]
        return max(0.0, min(due) - now) if due else None

    def _check(self, now: float) -> None:
        self._next_check = now + _CHECK_S
        self._dispatcher.check(now)
        before = now - self._config.delivery_timeout_ms / 1000
        self._router.expire(before)
        self._completion.expire(before)

    # -- ends

    def _change_hurry(self, by: int) -> None:
        self._hurry += by

    def _begin_close(self) -> None:
        self._closing = self._completion.closing = self._hooks.closing = True

    def _end(self, fail: Callable[[Any], None], reason: object) -> None:
        fail(reason)
        self._stopped = True

    def _continue_numbers(self) -> None:
        for queue in self._accumulator.queues.values():
            queue.next_sequence = queue.began_at = queue.stored_sequence
