"""The bounded queue between `send` and the sender.

Invariant: the messages that are enqueued and not released (so not resolved) never exceed
`max_messages`, nor their bytes `max_bytes`, save for a single message that is larger than the bound
all by itself.
"""

import time

from zkbroker.errors import ClientError
from zkbroker.producer.errors import QueueFull
from zkbroker.producer.future import SendFuture
from zkbroker.runtime import Event, Runtime

_NEVER = 2**62


class Inbox:
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
        self._items: list[SendFuture] = []
        self._first_at = 0.0
        self._wake_at = 1
        self._waiting = 0
        self._refusal: ClientError | None = None
        # What is in use; `open_messages` is compared alone in the common case, so a refusal sets
        # the limit it is compared with to 0.
        self.open_messages = 0
        self.open_bytes = 0
        self._limit = max_messages

    def put(self, future: SendFuture, timeout_s: float | None) -> None:
        """Enqueue; wait while full.

        Args:
            future: the message's.
            timeout_s: how long to wait; 0 not at all, None as long as it takes.

        Raises:
            QueueFull: it stayed full.
            ClientError: the producer takes no more messages; says why.
        """
        size = future.size
        with self._lock:
            if self.open_messages < self._limit and (
                self.open_bytes + size <= self._max_bytes or not self.open_messages
            ):
                self.open_messages += 1
                self.open_bytes += size
                items = self._items
                if not items:
                    self._first_at = time.monotonic()
                items.append(future)
                if len(items) < self._wake_at:
                    return
                self._wake_at = _NEVER
                full = False
            else:
                full = True
        if full:
            self._put_when_there_is_space(future, timeout_s)
        self._wake.set()

    def _put_when_there_is_space(self, future: SendFuture, timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._refusal is not None:
                    raise self._refusal
                if not self.open_messages or (
                    self.open_messages < self._limit
                    and self.open_bytes + future.size <= self._max_bytes
                ):
                    self.open_messages += 1
                    self.open_bytes += future.size
                    if not self._items:
                        self._first_at = time.monotonic()
                    self._items.append(future)
                    return
                self._space.clear()
                self._waiting += 1
            try:
                self._wake.set()  # the sender sees that somebody waits, and hurries
                left = None if deadline is None else deadline - time.monotonic()
                passed = left is not None and (left <= 0 or not self._space.wait(left))
                if left is None:
                    self._space.wait()
            finally:
                with self._lock:
                    self._waiting -= 1
            if passed:
                raise QueueFull(
                    f"the queue stayed full for {timeout_s:g} s with {self.open_messages} messages "
                    f"and {self.open_bytes} bytes unresolved: send more slowly, raise "
                    f"queue.buffering.max.messages={self._max_messages} or "
                    f"queue.buffering.max.bytes={self._max_bytes}, or let send wait longer by "
                    "queue.enqueue.timeout.ms (-1: as long as it takes)"
                )

    @property
    def starved(self) -> bool:
        """Whether somebody waits for space."""
        return self._waiting > 0

    def drain(self) -> tuple[float, list[SendFuture]]:
        """Take everything; returns also `time.monotonic()` when the first of it came, in s."""
        with self._lock:
            items, self._items = self._items, []
            self._wake_at = _NEVER
        return self._first_at, items

    def peek(self) -> list[SendFuture]:
        """Return what is there without taking it."""
        with self._lock:
            return list(self._items)

    def adjust(self, messages: int, size: int) -> None:
        """Count messages and bytes that a handler added (or, negative, took away)."""
        with self._lock:
            self.open_messages += messages
            self.open_bytes += size

    def rest(self, threshold: int) -> bool:
        """Agree to be woken at `threshold` messages; False when there are as many already."""
        with self._lock:
            if len(self._items) >= threshold:
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
        """Take no more messages; whoever waits for space gets `reason`."""
        with self._lock:
            self._refusal = reason
            self._limit = 0
        self._space.set()

    def abandon(self, reason: ClientError) -> None:
        """Forget all and refuse: in the child of a fork, where locks may be held for ever."""
        self._lock = self._runtime.guard()
        self._space = self._runtime.event()
        self._items = []
        self.open_messages = self.open_bytes = self._waiting = 0
        self.refuse(reason)
