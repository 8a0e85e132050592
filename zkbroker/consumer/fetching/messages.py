"""The messages that a stream yields, and the errors that it raises.

`MessageAndMetadata` is a named tuple: a whole chunk of them is made without a Python call for
each, and a user can unpack it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from zkbroker.errors import ClientError
from zkbroker.runtime.forks import made_before_fork

Decoder = Callable[[bytes], Any]
"""Turns the bytes of a key or value into an object; not called for null."""


class MessageAndMetadata(NamedTuple):
    """One message of a stream.

    `timestamp` is in milliseconds, -1 when the message format has none; `timestamp_type` is 0 for
    the producer's clock, 1 for the broker's, -1 for none. `headers` are (name, value) pairs.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def decoded(
    message: MessageAndMetadata, key_decoder: Decoder | None, value_decoder: Decoder | None
) -> MessageAndMetadata:
    """Return a message whose key and value are decoded, each unless it is null."""
    key, value = message.key, message.value
    if key is not None and key_decoder is not None:
        key = key_decoder(key)
    if value is not None and value_decoder is not None:
        value = value_decoder(value)
    return message._replace(key=key, value=value)


class ConsumerTimeout(ClientError):
    """No message came within `consumer.timeout.ms`; the stream can still be read."""


class NotOwned(ClientError):
    """The partition belongs to another member, or has no owner at the moment."""


class ConsumerClosed(ClientError):
    """The consumer was closed."""


class ForkedConsumer(ConsumerClosed):
    """The consumer was made before a fork and is used in the child process."""

    def __init__(self) -> None:
        super().__init__(made_before_fork("consumer"))


def string_decoder(encoding: str = "utf-8") -> Decoder:
    """Return a decoder of text.

    Args:
        encoding: name of the character encoding; bytes that are not in it raise
            `UnicodeDecodeError` from the stream, which then goes on with the next message.
    """

    def decode(data: bytes) -> str:
        return data.decode(encoding)

    return decode
