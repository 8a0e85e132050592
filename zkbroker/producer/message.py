"""What is sent and what comes back for it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class KeyedMessage:
    """One message for a topic; immutable by convention once it was given to a producer.

    Args:
        topic: name of the topic.
        message: what the producer's encoder turns into the value's bytes; None is a tombstone.
        key: what the key encoder turns into the key's bytes, and what the partitioner sees.
        value: another name for `message`, as newer clients call it.
        partition_key: what the partitioner sees instead of `key`; it is not stored.
        partition: the partition to send to; the partitioner is then not asked.
        timestamp_ms: creation time in ms since the epoch; the time of `send` when left out.
        headers: (name, value) pairs; stored in message format 2 only.
    """

    __slots__ = (
        "headers",
        "key",
        "message",
        "partition",
        "partition_key",
        "timestamp_ms",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        message: Any = None,
        *,
        key: Any = None,
        value: Any = None,
        partition_key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.topic = topic
        self.message = value if message is None else message
        self.key = key
        self.partition_key = partition_key
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers: Headers = tuple(headers) if headers else ()

    @property
    def value(self) -> Any:
        """The same as `message`."""
        return self.message

    def __repr__(self) -> str:
        return f"KeyedMessage(topic={self.topic!r}, key={self.key!r}, message={self.message!r})"


class RecordMetadata(NamedTuple):
    """Where a message was stored.

    `offset` is -1 when the broker was not asked to acknowledge (`request.required.acks=0`) or the
    message was taken by a user's event handler. `timestamp_ms` is the broker's append time where
    the topic uses it, else the message's own creation time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
