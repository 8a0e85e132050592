"""The future of one message.

Invariant: a future is resolved exactly once, by its batch or by an error of its own, and every
waiter and callback added before or after runs exactly once.

A future is also the queue's entry for its message, and a batch resolves all of its futures in one
step: so an acknowledged message costs nothing per message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zkbroker.errors import RequestTimedOut
from zkbroker.producer.message import Headers, KeyedMessage, RecordMetadata
from zkbroker.runtime import Runtime

if TYPE_CHECKING:
    from zkbroker.producer.batch import Batch

# key, value, timestamp in ms, headers: as the records room encodes it.
EncodedRecord = tuple[bytes | None, bytes | None, int, Headers]


class SendFuture:
    """Resolves to `RecordMetadata`, or to the error that kept the message from being stored."""

    __slots__ = (
        "_error",
        "_message",
        "_runtime",
        "batch",
        "index",
        "keyless",
        "observed",
        "record",
        "size",
        "topic",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        message: KeyedMessage | None,
        record: EncodedRecord,
        size: int,
        keyless: bool,
        runtime: Runtime,
    ) -> None:
        self.topic = topic
        # None where topic and record say all there is: one object less to live until the answer,
        # which is what the garbage collector's work is counted by.
        self._message = message
        self.record = record
        self.size = size
        self.keyless = keyless
        self._runtime = runtime
        # Set when the batch takes no more messages; its outcome is this future's from then on.
        self.batch: Batch | None = None
        self.index = 0
        self._error: BaseException | None = None
        self.waiters: list[Callable[[], object]] | None = None
        self.observed = False

    @classmethod
    def of(
        cls, message: KeyedMessage, record: EncodedRecord, size: int, runtime: Runtime
    ) -> "SendFuture":
        """Return the future of a message that is kept as it is."""
        return cls(message.topic, message, record, size, is_keyless(message), runtime)

    @property
    def message(self) -> KeyedMessage:
        """The message; an equal one where the one given to `send` held nothing but bytes."""
        if self._message is None:
            key, value, timestamp_ms, _ = self.record
            self._message = KeyedMessage(self.topic, value, key=key, timestamp_ms=timestamp_ms)
        return self._message

    @property
    def partitioned_by(self) -> KeyedMessage | None:
        """The message where its partition depends on more than the record."""
        return self._message

    def done(self) -> bool:
        """Whether the outcome is known."""
        batch = self.batch
        return self._error is not None or (batch is not None and batch.resolved)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Raises:
            RequestTimedOut: it is not known after `timeout_s`; the message is still under way.
            ClientError: the message was not stored, or nobody can know whether it was.
        """
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        batch = self.batch
        assert batch is not None
        return batch.metadata(self.index)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait for the outcome; return the error, or None where the message was stored.

        Raises:
            RequestTimedOut: it is not known after `timeout_s`.
        """
        if not self.done() and not self._wait(timeout_s):
            raise RequestTimedOut(
                f"no outcome for the message to topic {self.topic} within {timeout_s} s; "
                "it is still under way"
            )
        self.observed = True
        if self._error is not None:
            return self._error
        assert self.batch is not None
        return self.batch.error

    def add_done_callback(self, function: Callable[["SendFuture"], object]) -> None:
        """Call `function(future)` once the outcome is known; at once where it is.

        It is called in the task that learns the outcome: be short, and do not wait in it.
        """
        self.observed = True
        self._add_waiter(lambda: function(self))

    def _wait(self, timeout_s: float | None) -> bool:
        event = self._runtime.event()
        self._add_waiter(event.set)
        return event.wait(timeout_s)

    def _add_waiter(self, waiter: Callable[[], object]) -> None:
        waiters = self.waiters
        if waiters is None:
            waiters = self.waiters = []
        waiters.append(waiter)
        # The outcome may have come in just before the append, when nobody saw the waiter.
        if self.done():
            self.wake()

    def wake(self) -> None:
        """Call the waiters; each is called once, whoever comes first."""
        waiters = self.waiters
        while waiters:
            try:
                waiter = waiters.pop(0)
            except IndexError:  # another task took the last one
                return
            waiter()

    def bind(self, message: KeyedMessage, record: EncodedRecord, size: int) -> None:
        """Stand for another message from now on, one that a handler put in its place."""
        self.topic = message.topic
        self._message = message
        self.record = record
        self.size = size
        self.keyless = is_keyless(message)

    def fail(self, error: BaseException) -> None:
        """Resolve to an error that is this message's own."""
        self._error = error
        if self.waiters is not None:
            self.wake()

    def __repr__(self) -> str:
        state: Any = "pending"
        if self.done():
            state = self._error or (self.batch and self.batch.error) or "sent"
        return f"<SendFuture topic={self.topic!r} {state!r}>"


def is_keyless(message: KeyedMessage) -> bool:
    """Whether a message may go to any partition."""
    return message.key is None and message.partition is None and message.partition_key is None
