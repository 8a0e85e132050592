"""The bounded queue between `send` and the sender.

Invariant: the messages that are enqueued and not released (so not resolved) never exceed
`max_messages`, nor their bytes `max_bytes`, except for a single message above the bound. A message
is enqueued and counted, or neither, even when `put` is interrupted.
"""

import time

from zkbroker.errors import ClientError
from zkbroker.producer.errors import QueueFull
from zkbroker.producer.intake import Intake
from zkbroker.producer.message import KeyedMessage
from zkbroker.producer.portable import NEVER
from zkbroker.producer.queued_messages import EncodedRecord, QueuedMessages, SendFuture
from zkbroker.runtime import Event, Runtime


class SendQueue:
    """Messages given to `send` and not yet taken by the sender.

    Args:
        runtime: of the producer.
        wake: set when the sender has something to do.
        max_messages: bound of unresolved messages.
        max_bytes: bound of their bytes.
        max_message_bytes: bound of what `put_plain` takes.

    Attributes:
        put_plain: the fast path: enqueues a message of `send` that holds only bytes, if there is
            room. Returns None where it did nothing and `put` has to be called.
        dropped: messages that found no room.
    """

    def __init__(
        self,
        runtime: Runtime,
        wake: Event,
        max_messages: int,
        max_bytes: int,
        max_message_bytes: int = 2**31 - 1,
    ) -> None:
        self._runtime = runtime
        self._wake = wake
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._lock = runtime.guard()
        self._space = runtime.event()
        # The space in use. The common case compares only `open_messages`, so a refusal sets the
        # limit that it is compared with to 0.
        self._intake = Intake(self._lock, wake, max_message_bytes, max_messages, max_bytes)
        self._waiting = 0
        self._refusal: ClientError | None = None
        self.put_plain = self._intake.put
        self.dropped = 0

    @property
    def open_messages(self) -> int:
        """Messages that were enqueued and not released."""
        return self._intake.open_messages

    @property
    def open_bytes(self) -> int:
        """Bytes of the messages that were enqueued and not released."""
        return self._intake.open_bytes

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
            topic: of the message.
            record: its encoded form.
            size: bytes that count against the bounds.
            message: the message itself, where it is more than its record.
            timeout_s: how long to wait; 0 not at all, None as long as it takes.

        Raises:
            QueueFull: it stayed full.
            ClientError: the producer takes no more messages; says why.
        """
        intake = self._intake
        deadline: float | None = None
        while True:
            with self._lock:
                if self._has_room(size):
                    queued = intake.by_topic.get(topic)
                    if queued is None:
                        # The intake compares topics without checking their class.
                        topic = str.__str__(topic)
                        queued = QueuedMessages(topic, time.monotonic(), self._runtime)
                        intake.by_topic[topic] = queued
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
                        # Ctrl-C may come after any call: queue wholly, or not at all.
                        queued.drop(index)
                        raise
                    intake.open_messages += 1
                    intake.open_bytes += size
                    intake.queued += 1
                    if intake.queued < intake.wake_at:
                        return SendFuture(queued, index)
                    intake.wake_at = NEVER
                    break
            if deadline is None and timeout_s is not None:
                deadline = time.monotonic() + timeout_s
            self._wait_for_space(size, timeout_s, deadline)
        self._wake.set()
        return SendFuture(queued, index)

    def _has_room(self, size: int) -> bool:
        intake = self._intake
        return intake.open_messages < intake.limit and (
            intake.open_bytes + size <= self._max_bytes or not intake.open_messages
        )

    def _wait_for_space(self, size: int, timeout_s: float | None, deadline: float | None) -> None:
        """Wait until there seems to be room, which another call may take first."""
        while True:
            with self._lock:
                if self._refusal is not None:
                    # Each raise adds frames to the one error, and they hold the refused messages.
                    raise self._refusal.with_traceback(None)
                if not self._intake.open_messages or self._has_room(size):
                    return
                self._space.clear()
                self._waiting += 1
            try:
                self._wake.set()  # the sender sees the waiting call, and stops lingering
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
            all_queued, self._intake.by_topic = self._intake.by_topic, {}
            self._intake.queued = 0
            self._intake.wake_at = NEVER
        return list(all_queued.values())

    def peek(self) -> list[QueuedMessages]:
        """Return the queued messages without taking them."""
        with self._lock:
            return list(self._intake.by_topic.values())

    def adjust(self, messages: int, size: int) -> None:
        """Count messages and bytes that a handler added, or, if negative, removed."""
        with self._lock:
            self._intake.open_messages += messages
            self._intake.open_bytes += size

    def reserve(self, messages: int, size: int) -> None:
        """Count messages that bypass the queue, from a caller with a bound of its own.

        Raises:
            ClientError: the producer takes no more messages; says why.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal.with_traceback(None)  # as in `_wait_for_space`
            self._intake.open_messages += messages
            self._intake.open_bytes += size

    def rest(self, threshold: int) -> bool:
        """Ask to be woken at `threshold` messages; False when there are as many already."""
        with self._lock:
            if self._intake.queued >= threshold:
                return False
            self._intake.wake_at = threshold
            return True

    def release(self, messages: int, size: int) -> None:
        """Give back the space of resolved messages."""
        with self._lock:
            self._intake.open_messages -= messages
            self._intake.open_bytes -= size
            if not self._waiting:
                return
        self._space.set()

    def refuse(self, reason: ClientError) -> None:
        """Take no more messages; a `put` that waits for space raises `reason`."""
        with self._lock:
            self._refusal = reason
            self._intake.limit = 0
        self._space.set()

    def accept(self) -> None:
        """Take messages again, after `refuse`."""
        with self._lock:
            self._refusal = None
            self._intake.limit = self._max_messages

    def abandon(self, reason: ClientError) -> None:
        """Drop all and refuse more; for the child of a fork, whose locks may never be free."""
        intake = self._intake
        self._lock = intake.lock = self._runtime.guard()
        self._space = self._runtime.event()
        intake.by_topic = {}
        intake.queued = intake.open_messages = intake.open_bytes = self._waiting = 0
        self.refuse(reason)
