"""The bounded queue between `send` and the sender.

Invariant: the messages that are enqueued and not released (so not resolved) never exceed
`max_messages`, nor their bytes `max_bytes`, save for a single message that is larger than the bound
all by itself. A message is enqueued and counted, or neither, also when `put` is interrupted.
"""

import time

from zkbroker.errors import ClientError
from zkbroker.producer.errors import QueueFull
from zkbroker.producer.message import KeyedMessage
from zkbroker.producer.queued_messages import EncodedRecord, QueuedMessages, SendFuture
from zkbroker.runtime import Event, Runtime

_NEVER = 2**62


class SendQueue:
    """What was given to `send` and not yet taken by the sender.

    Args:
        runtime: of the producer.
        wake: set when the sender has something to do.
        max_messages: bound of unresolved messages.
        max_bytes: bound of their bytes.
    """

    def __init__(self, runtime: Runtime, wake: Event, max_messages: int, max_bytes: int) -> None:
        self._runtime = runtime
        self._wake = wake
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._lock = runtime.guard()
        self._space = runtime.event()
        # By topic, in the order in which their first messages came.
        self._by_topic: dict[str, QueuedMessages] = {}
        self._queued = 0
        self._wake_at = 1
        self._waiting = 0
        self._refusal: ClientError | None = None
        # What is in use; `open_messages` is compared alone in the common case, so a refusal sets
        # the limit it is compared with to 0.
        self.open_messages = 0
        self.open_bytes = 0
        self.dropped = 0
        """Messages that found no room."""
        self._limit = max_messages

    def put(
        self,
        topic: str,
        record: EncodedRecord,
        size: int,
        message: KeyedMessage | None,
        timeout_s: float | None,
    ) -> SendFuture:
        """Enqueue a message; wait while full.

        Args:
            topic: where it goes.
            record: what it is encoded to.
            size: bytes that count against the bounds.
            message: it, where the record does not say all about it.
            timeout_s: how long to wait; 0 not at all, None as long as it takes.

        Raises:
            QueueFull: it stayed full.
            ClientError: the producer takes no more messages; says why.
        """
        with self._lock:
            if self.open_messages < self._limit and (
                self.open_bytes + size <= self._max_bytes or not self.open_messages
            ):
                queued = self._by_topic.get(topic)
                if queued is None:
                    queued = self._by_topic[topic] = QueuedMessages(
                        topic, time.monotonic(), self._runtime
                    )
                records = queued.records
                index = len(records)
                try:
                    records.append(record)
                    queued.sizes.append(size)
                    if message is not None:
                        queued.keep(index, message)
                    elif record[0] is not None:
                        queued.keyless = False
                except BaseException:
                    # Ctrl-C, which may come after any call: in whole or not at all.
                    queued.drop(index)
                    raise
                self.open_messages += 1
                self.open_bytes += size
                self._queued += 1
                if self._queued < self._wake_at:
                    return SendFuture(queued, index)
                self._wake_at = _NEVER
            else:
                queued = None
        if queued is None:
            self._wait_for_space(size, timeout_s)
            return self.put(topic, record, size, message, timeout_s)
        self._wake.set()
        return SendFuture(queued, index)

    def _wait_for_space(self, size: int, timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._refusal is not None:
                    raise self._refusal
                if not self.open_messages or (
                    self.open_messages < self._limit and self.open_bytes + size <= self._max_bytes
                ):
                    return
                self._space.clear()
                self._waiting += 1
            try:
                self._wake.set()  # the sender sees the waiting call, and hurries
                left = None if deadline is None else deadline - time.monotonic()
                passed = left is not None and (left <= 0 or not self._space.wait(left))
                if left is None:
                    self._space.wait()
            finally:
                with self._lock:
                    self._waiting -= 1
            if passed:
                with self._lock:
                    self.dropped += 1
                raise QueueFull(
                    f"the queue stayed full for {timeout_s:g} s with {self.open_messages} messages "
                    f"and {self.open_bytes} bytes unresolved: send more slowly, raise "
                    f"queue.buffering.max.messages={self._max_messages} or "
                    f"queue.buffering.max.bytes={self._max_bytes}, or let send wait longer by "
                    "queue.enqueue.timeout.ms (-1: as long as it takes)"
                )

    @property
    def starved(self) -> bool:
        """Whether a call waits for space."""
        return self._waiting > 0

    def drain(self) -> list[QueuedMessages]:
        """Take everything."""
        with self._lock:
            all_queued, self._by_topic = self._by_topic, {}
            self._queued = 0
            self._wake_at = _NEVER
        return list(all_queued.values())

    def peek(self) -> list[QueuedMessages]:
        """Return what is there without taking it."""
        with self._lock:
            return list(self._by_topic.values())

    def adjust(self, messages: int, size: int) -> None:
        """Count messages and bytes that a handler added (or, negative, took away)."""
        with self._lock:
            self.open_messages += messages
            self.open_bytes += size

    def reserve(self, messages: int, size: int) -> None:
        """Count what goes past the queue, from a caller with a bound of its own.

        Raises:
            ClientError: the producer takes no more messages; says why.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            self.open_messages += messages
            self.open_bytes += size

    def rest(self, threshold: int) -> bool:
        """Agree to be woken at `threshold` messages; False when there are as many already."""
        with self._lock:
            if self._queued >= threshold:
                return False
            self._wake_at = threshold
            return True

    def release(self, messages: int, size: int) -> None:
        """Give back the space of resolved messages."""
        with self._lock:
            self.open_messages -= messages
            self.open_bytes -= size
            if not self._waiting:
                return
        self._space.set()

    def refuse(self, reason: ClientError) -> None:
        """Take no more messages; a `put` that waits for space raises `reason`."""
        with self._lock:
            self._refusal = reason
            self._limit = 0
        self._space.set()

    def accept(self) -> None:
        """Take messages again, after `refuse`."""
        with self._lock:
            self._refusal = None
            self._limit = self._max_messages

    def abandon(self, reason: ClientError) -> None:
        """Drop everything and refuse; for the child of a fork, whose locks may never be free."""
        self._lock = self._runtime.guard()
        self._space = self._runtime.event()
        self._by_topic = {}
        self._queued = 0
        self.open_messages = self.open_bytes = self._waiting = 0
        self.refuse(reason)
