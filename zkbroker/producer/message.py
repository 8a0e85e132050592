"""Messages to send, and the metadata of stored ones."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, SupportsIndex, cast

_INT64_MAX = 2**63 - 1

Headers = tuple[tuple[str, bytes | None], ...]


class KeyedMessage:
    """One message for a topic; immutable by convention once it was given to a producer.

    Args:
        topic: name of the topic.
        message: the value, for the producer's encoder; None is a tombstone.
        key: the key, for the key encoder and the partitioner.
        value: another name for `message`, as newer clients call it.
        partition_key: for the partitioner, in place of `key`; it is not stored.
        partition: the partition to send to, without asking the partitioner.
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


def all_messages(given: Iterable[object]) -> list[KeyedMessage]:
    """Return what a user or a handler gives to be sent, as a list.

    Raises:
        TypeError: an item is not a message.
    """
    messages = list(given)
    for message in messages:
        if not isinstance(message, KeyedMessage):
            raise TypeError(f"only a KeyedMessage or a list of them can be sent, not {message!r}")
    return cast("list[KeyedMessage]", messages)


def check_fields(message: KeyedMessage) -> None:
    """Check the fields of a message that no encoder checks.

    A field of a wrong type would otherwise fail more than its message: a header the whole batch, a
    topic all metadata look-ups, a partition the sender.

    Raises:
        TypeError, ValueError: a field cannot be stored; the error names it and what to give.
    """
    if not is_name(message.topic):
        raise TypeError(f"the topic must be text, not {message.topic!r}")
    if message.partition is not None and not isinstance(message.partition, int | SupportsIndex):
        raise TypeError(f"partition must be a whole number, not {message.partition!r}")
    stamp = message.timestamp_ms
    if stamp is not None and not is_timestamp(stamp):
        raise ValueError(f"timestamp_ms must be a whole number of milliseconds, not {stamp!r}")
    for header in message.headers:
        if not (isinstance(header, Sequence) and len(header) == 2 and is_name(header[0])):
            raise TypeError(f"a header must be a pair of a name and bytes, not {header!r}")
        if not isinstance(header[1], bytes | bytearray | memoryview | None):
            raise TypeError(f"header {header[0]!r} must hold bytes or None, not {header[1]!r}")


def is_all_bytes(message: KeyedMessage) -> bool:
    """Whether a message is no more than its record: bytes for any partition."""
    return (
        message.__class__ is KeyedMessage
        and message.message.__class__ is bytes
        and (message.key is None or message.key.__class__ is bytes)
        and message.partition is None
        and message.partition_key is None
        and not message.headers
    )


def is_name(value: object) -> bool:
    """Whether a value is text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, as in file names that are not UTF-8
            return False
    return True


def is_timestamp(value: object) -> bool:
    """Whether a value can be stored as a time in ms; -1 means none."""
    if isinstance(value, int):
        return -1 <= value <= _INT64_MAX
    return isinstance(value, SupportsIndex) and -1 <= value.__index__() <= _INT64_MAX


class RecordMetadata(NamedTuple):
    """Where a message was stored.

    `offset` is -1 when the broker was not asked to acknowledge (`request.required.acks=0`) or the
    a user's event handler took the message. `timestamp_ms` is the broker's append time where the
    topic uses it, else the message's own creation time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
