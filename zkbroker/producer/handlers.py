"""The interfaces of a user's handlers and interceptors.

    send ─ interceptor.on_send ─ before_enqueue ─▶ queue ─ after_enqueue
                                                     │
      after_dequeue ◀────────────────────────────────┘
           │
      event handler (encodes, partitions, hands on) ─ before_send ─▶ broker
                                                                       │
      interceptor.on_acknowledgement ◀─ after_send ◀───────────────────┘
    close: last_batch_before_close, then close

A method that blocks delays other messages. An exception from a handler fails the messages it was
given. It is logged instead where they cannot be failed: in `after_enqueue`, for which the outcome
of a message does not depend on the handler, and in the methods called after the outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from zkbroker.producer.message import KeyedMessage, RecordMetadata

Deliver = Callable[[Sequence[KeyedMessage]], None]


@runtime_checkable
class EventHandler(Protocol):
    """Takes dequeued messages instead of the default handler."""

    def handle(self, messages: Sequence[KeyedMessage], deliver: Deliver) -> None:
        """Handle messages that left the queue.

        Args:
            messages: messages that left the queue together, not encoded.
            deliver: passes messages (these or others) to the default handling. Futures of messages
                that are not passed on resolve with offset -1 when this method returns.
        """


class CallbackHandler:
    """Called at each stage of the queue; subclass it and override the methods you need."""

    def init(self, properties: Mapping[str, str]) -> None:
        """Receive the properties of `callback.handler.props`, before any other call."""

    def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
        """Return the message to enqueue; called in `send`."""
        return message

    def after_enqueue(self, message: KeyedMessage, added: bool) -> None:
        """Learn whether the message was enqueued; called in `send`, which goes on if it fails."""

    def after_dequeue(self, messages: list[KeyedMessage]) -> list[KeyedMessage]:
        """Return the messages to keep; those left out fail with `Dropped`.

        A new message at the place of another one keeps its topic, or it is refused.
        """
        return messages

    def before_send(self, messages: list[KeyedMessage]) -> list[KeyedMessage]:
        """Return the messages of one partition's batch to send, as `after_dequeue` does."""
        return messages

    def after_send(
        self,
        messages: Sequence[KeyedMessage],
        metadata: Sequence[RecordMetadata],
        error: BaseException | None,
    ) -> None:
        """Learn that messages were delivered (`metadata` of each), or not (`error`)."""

    def last_batch_before_close(self) -> list[KeyedMessage]:
        """Return messages to send before the producer closes."""
        return []

    def undelivered(self, failed: Sequence[tuple[KeyedMessage, BaseException]]) -> None:
        """Receive the messages that were not delivered when the producer closed."""

    def close(self) -> None:
        """Release resources; no method is called after it."""


class Interceptor:
    """Sees every message before encoding, and every outcome; subclass it and override."""

    def on_send(self, message: KeyedMessage) -> KeyedMessage:
        """Return the message to send, changed or not; called in `send`."""
        return message

    def on_acknowledgement(
        self,
        message: KeyedMessage,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        """Learn the outcome: `metadata` or `error`."""

    def close(self) -> None:
        """Release resources."""
