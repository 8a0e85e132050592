"""The user's code around the queue: encoders, partitioner, handlers, interceptors.

Invariant: an exception of a user's code fails the messages that it was given, with `HandlerFailed`
or `EncodingFailed` naming it; in `after_enqueue`, and after the outcome of a message, it is logged
instead. In the list that a callback handler returns, given messages keep their futures. If the list
has the same length, a new message replaces the given one at its place, in the same topic; other new
ones are sent too. Messages left out fail with `Dropped`.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkbroker.producer.batch import Batch
from zkbroker.producer.encoders import Encoder
from zkbroker.producer.errors import Dropped, EncodingFailed, HandlerFailed
from zkbroker.producer.handlers import CallbackHandler, EventHandler, Interceptor
from zkbroker.producer.message import (
    KeyedMessage,
    RecordMetadata,
    all_messages,
    check_fields,
)
from zkbroker.producer.portable import RECORD_OVERHEAD_BYTES
from zkbroker.producer.queued_messages import (
    EncodedRecord,
    Part,
    QueuedMessages,
    SendFuture,
    futures_of,
    parts_of,
)
from zkbroker.producer.send_queue import SendQueue
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

Route = Callable[[Sequence[Part]], None]
Fail = Callable[[Sequence[Part], BaseException], None]

_HEADER_OVERHEAD_BYTES = 10


@dataclass(eq=False, kw_only=True)
class Hooks:
    """The plug-ins of one producer.

    Attributes:
        runtime: makes the futures of messages that a handler adds.
        encoder: of values.
        key_encoder: of keys.
        partitioner: of keys, see `partitioners`.
        event_handler: takes messages off the queue; None for the default handling.
        callback_handler: called at each stage; None for none.
        interceptors: in the order of their calls.
        closing: whether the producer is being closed.
    """

    runtime: Runtime
    encoder: Encoder
    key_encoder: Encoder
    partitioner: Any
    event_handler: EventHandler | None
    callback_handler: CallbackHandler | None
    interceptors: Sequence[Interceptor]
    closing: bool = False
    _send_queue: SendQueue = field(init=False, repr=False)
    _fail: Fail = field(init=False, repr=False)

    def bind(self, send_queue: SendQueue, fail: Fail) -> None:
        """Connect to the sender: the queue that counts space, and how to fail messages."""
        self._send_queue = send_queue
        self._fail = fail

    # -- in send

    def on_send(self, message: KeyedMessage) -> KeyedMessage:
        """Let the interceptors and the callback handler change the message.

        Raises:
            HandlerFailed: one of them failed.
        """
        for interceptor in self.interceptors:
            message = self._guarded(interceptor, interceptor.on_send, message)
        if self.callback_handler is not None:
            handler = self.callback_handler
            message = self._guarded(handler, handler.before_enqueue, message)
        return message

    def enqueued(self, message: KeyedMessage, added: bool) -> None:
        """Tell the callback handler whether the message was enqueued."""
        if self.callback_handler is not None:
            # An exception would have the caller send an enqueued message again.
            self._reported(self.callback_handler.after_enqueue, message, added)

    def encode(self, message: KeyedMessage) -> tuple[EncodedRecord, int]:
        """Return the encoded record and its size in bytes.

        Raises:
            EncodingFailed: an encoder failed, or a field cannot be stored.
        """
        try:
            check_fields(message)
            value = self.encoder.to_bytes(message.message)
            key = None if message.key is None else self.key_encoder.to_bytes(message.key)
        # A user's encoder may raise anything; the caller of send gets it as the cause.
        except Exception as error:
            raise EncodingFailed(
                f"a message to topic {message.topic} cannot be encoded: {error}"
            ) from error
        timestamp_ms = message.timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        headers = message.headers
        size = RECORD_OVERHEAD_BYTES + (len(value) if value else 0) + (len(key) if key else 0)
        for name, content in headers:
            size += _HEADER_OVERHEAD_BYTES + 3 * len(name) + len(content or b"")
        return (key, value, timestamp_ms, headers), size

    @staticmethod
    def _guarded(owner: object, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        # A user's code may raise anything, which `HandlerFailed` reports.
        except Exception as error:
            raise HandlerFailed(f"{type(owner).__name__} failed: {error!r}") from error

    # -- in the sender's loop

    def dequeue(self, parts: Sequence[Part], route: Route) -> None:
        """Pass messages that left the queue through the handlers, and on to `route`."""
        if self.callback_handler is not None:
            parts = self._run_stage(parts, self.callback_handler.after_dequeue)
        if self.event_handler is None:
            route(parts)
        elif parts:
            self._hand_over(self.event_handler, futures_of(parts), route)

    def before_send(self, batch: Batch) -> bool:
        """Show a batch to the callback handler; False when it leaves no messages."""
        batch.announced = True
        if self.callback_handler is None:
            return True
        batch.closed = True
        parts = self._run_stage(batch.parts, self.callback_handler.before_send)
        others = [part for part in parts if part[0].topic != batch.topic]
        batch.refill([part for part in parts if part[0].topic == batch.topic])
        self._fail(others, self._other_topic(batch.topic))
        return len(batch) > 0

    def _run_stage(
        self,
        parts: Sequence[Part],
        stage: Callable[[list[KeyedMessage]], list[KeyedMessage]],
    ) -> Sequence[Part]:
        futures = futures_of(parts)
        try:
            returned = self._guarded(
                self.callback_handler,
                lambda given: all_messages(stage(given)),
                [future.message for future in futures],
            )
            return parts_of(self._match_returned(futures, returned))
        except (HandlerFailed, EncodingFailed) as error:
            self._fail(parts, error)
            return ()

    def _match_returned(
        self, futures: Sequence[SendFuture], returned: Sequence[KeyedMessage]
    ) -> list[SendFuture]:
        left = _Outstanding(futures)
        refused: dict[int, SendFuture] = {}
        if len(returned) == len(futures):
            missing = Counter(id(future.message) for future in futures)
            missing.subtract(map(id, returned))
            for at, (future, message) in enumerate(zip(futures, returned, strict=True)):
                before = id(future.message)
                if missing[before] > 0 and message not in left:
                    missing[before] -= 1
                    left.remove(future)
                    if message.topic != future.queued.topic:
                        refused[at] = future
                        continue
                    self._replace(future, message)
                    left.add(future)
        kept = self._futures_for(
            left, [message for at, message in enumerate(returned) if at not in refused]
        )
        rest = left.all()
        if rest:
            self._fail(parts_of(rest), Dropped("a callback handler left the message out"))
        for future in refused.values():
            self._fail(parts_of([future]), self._other_topic(future.queued.topic))
        return kept

    def _other_topic(self, topic: str) -> HandlerFailed:
        return HandlerFailed(
            f"{type(self.callback_handler).__name__} returned a message of another topic among "
            f"those of topic {topic}, which is not sent: change topics in before_enqueue"
        )

    def _replace(self, future: SendFuture, message: KeyedMessage) -> None:
        record, size = self.encode(message)
        self._send_queue.adjust(0, size - future.queued.sizes[future.index])
        future.queued.replace(future.index, message, record, size)

    def _futures_for(
        self, left: "_Outstanding", messages: Sequence[KeyedMessage]
    ) -> list[SendFuture]:
        """Return the futures of given messages, taken out of `left`, and of new ones.

        Raises:
            EncodingFailed: a new message cannot be encoded; then none is taken or added.
        """
        given: list[SendFuture] = []
        added: list[SendFuture] = []
        found: list[SendFuture] = []
        try:
            for message in messages:
                future = left.take(message)
                if future is not None:
                    given.append(future)
                else:
                    future = self._new_future(message)
                    added.append(future)
                found.append(future)
        except EncodingFailed:
            for future in given:
                left.add(future)
            raise
        self._send_queue.adjust(len(added), sum(future.queued.sizes[0] for future in added))
        return found

    def _new_future(self, message: KeyedMessage) -> SendFuture:
        record, size = self.encode(message)
        queued = QueuedMessages(message.topic, time.monotonic(), self.runtime)
        queued.records.append(record)
        queued.sizes.append(size)
        queued.keep(0, message)
        return SendFuture(queued, 0)

    def _hand_over(
        self, handler: EventHandler, futures: Sequence[SendFuture], route: Route
    ) -> None:
        left = _Outstanding(futures)

        def deliver(messages: Sequence[KeyedMessage]) -> None:
            route(parts_of(self._futures_for(left, all_messages(messages))))

        try:
            self._guarded(handler, handler.handle, [f.message for f in futures], deliver)
        except HandlerFailed as error:
            self._fail(parts_of(left.all()), error)
            return
        # The handler took these messages over.
        for queued, indices in parts_of(left.all()):
            taken = Batch(queued.topic, -1, queued.first_at)
            taken.refill([(queued, indices)])
            taken.succeed(-1, -1)
            self._send_queue.release(len(taken), taken.size)
            taken.wake()

    # -- after the outcome

    def after_send(self, batch: Batch) -> None:
        """Report a batch's outcome to handler and interceptors."""
        if self.callback_handler is None and not self.interceptors:
            return
        stored = range(len(batch.records)) if batch.error is None else ()
        metadata = [batch.metadata(position) for position in stored]
        self._tell(batch.futures(), metadata, batch.error)

    def after_failure(self, futures: Sequence[SendFuture], error: BaseException) -> None:
        """Report messages that failed outside batches to handler and interceptors."""
        if self.callback_handler is not None or self.interceptors:
            self._tell(futures, [], error)

    def _tell(
        self,
        futures: Sequence[SendFuture],
        metadata: Sequence[RecordMetadata],
        error: BaseException | None,
    ) -> None:
        messages = [future.message for future in futures]
        if error is not None and not self.closing:
            for future in futures:
                future.queued.observed.add(future.index)
        if self.callback_handler is not None:
            self._reported(self.callback_handler.after_send, messages, metadata, error)
        for interceptor in self.interceptors:
            for index, message in enumerate(messages):
                place = metadata[index] if metadata else None
                self._reported(interceptor.on_acknowledgement, message, place, error)

    def last_messages(self) -> Sequence[KeyedMessage]:
        """Return the callback handler's last messages before the producer closes."""
        if self.callback_handler is None:
            return ()
        messages = self._reported(self.callback_handler.last_batch_before_close)
        return messages or ()

    def undelivered(self, failed: Sequence[tuple[KeyedMessage, BaseException]]) -> None:
        """Give the callback handler the messages that were not delivered."""
        if self.callback_handler is not None:
            self._reported(self.callback_handler.undelivered, failed)

    def close(self) -> None:
        """Close the handlers, interceptors and the partitioner, where they have `close`."""
        for each in (
            self.callback_handler,
            self.event_handler,
            self.partitioner,
            *self.interceptors,
        ):
            close = getattr(each, "close", None)
            if close is not None:
                self._reported(close)

    @staticmethod
    def _reported(function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        # Only notified: no message depends on it.
        except Exception:
            logger.exception("handler failed function=%r", function)
            return None


class _Outstanding:
    """The futures of messages that a handler was given and has not passed on.

    An object that was sent more than once has as many futures.
    """

    def __init__(self, futures: Iterable[SendFuture]) -> None:
        self._by_id: dict[int, deque[SendFuture]] = {}
        for future in futures:
            self.add(future)

    def __contains__(self, message: KeyedMessage) -> bool:
        return bool(self._by_id.get(id(message)))

    def add(self, future: SendFuture) -> None:
        self._by_id.setdefault(id(future.message), deque()).append(future)

    def remove(self, future: SendFuture) -> None:
        self._by_id[id(future.message)].remove(future)

    def take(self, message: KeyedMessage) -> SendFuture | None:
        """Take out the oldest future of a message; None where it has none."""
        futures = self._by_id.get(id(message))
        return futures.popleft() if futures else None

    def all(self) -> list[SendFuture]:
        return [future for futures in self._by_id.values() for future in futures]
