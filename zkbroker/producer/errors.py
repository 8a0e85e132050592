"""The errors of a producer; each message names what to change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zkbroker.errors import ClientError

if TYPE_CHECKING:
    from zkbroker.producer.message import KeyedMessage, RecordMetadata


class ProducerClosed(ClientError):
    """The producer was closed; make a new one."""


class ForkedProducer(ClientError):
    """The producer was made before a fork and is used in the child process."""


class EncodingFailed(ClientError):
    """An encoder or a partitioner of the user's failed on a message."""


class HandlerFailed(ClientError):
    """A callback handler, event handler or interceptor of the user's failed on a message."""


class QueueFull(ClientError):
    """The queue stayed full for the enqueue time-out."""


class MessageTooLarge(ClientError):
    """A message is larger than the producer or the broker takes."""


class KeyRequired(ClientError):
    """The broker takes only messages with a key: the topic is compacted."""


class TopicUnavailable(ClientError):
    """The topic does not exist, cannot be created, or has no leader for the message."""


class BrokersUnavailable(ClientError):
    """No broker could be reached in the allowed attempts."""


class DeliveryTimedOut(ClientError):
    """No acknowledgement within `delivery.timeout.ms`; the message may or may not be stored."""


class Dropped(ClientError):
    """A callback handler left the message out."""


class Cancelled(ClientError):
    """The producer was closed before the message was delivered."""


class TransactionError(ClientError):
    """Base of the errors of transactions; the three kinds below say what to do."""


class InvalidTransactionState(TransactionError):
    """The call is not allowed in the state of the transaction; nothing was changed."""


class TransactionAbortable(TransactionError):
    """The transaction cannot be committed: call `abort()`, and begin another one."""


class TransactionAborted(TransactionAbortable):
    """The message was not sent, or readers skip it: its transaction was aborted."""


class TransactionFatal(TransactionError):
    """The producer is unusable: close it and make a new one, which aborts an open transaction."""


class ProducerFenced(TransactionFatal):
    """Another producer began under this transactional id, or the transaction took too long."""


class SendFailed(ClientError):
    """A sync `send` did not deliver every message.

    Attributes:
        sent: (message, metadata) of each that was delivered, in the order given.
        failed: (message, error) of each that was not, in the order given.
    """

    def __init__(
        self,
        sent: Sequence[tuple["KeyedMessage", "RecordMetadata"]],
        failed: Sequence[tuple["KeyedMessage", BaseException]],
    ) -> None:
        self.sent = list(sent)
        self.failed = list(failed)
        first = failed[0][1]
        super().__init__(
            f"{len(failed)} of {len(sent) + len(failed)} messages were not sent; the first, to "
            f"topic {failed[0][0].topic}: {type(first).__name__}: {first}"
        )


class Undelivered(ClientError):
    """`close` or `flush` ended while messages were not delivered.

    Attributes:
        failed: (message, error) of each.
    """

    def __init__(self, failed: Sequence[tuple["KeyedMessage", BaseException]]) -> None:
        self.failed = list(failed)
        super().__init__(
            f"{len(failed)} messages were not delivered; the first, to topic "
            f"{failed[0][0].topic}: {failed[0][1]}"
        )

    @property
    def count(self) -> int:
        """How many messages were not delivered."""
        return len(self.failed)

    @property
    def messages(self) -> list["KeyedMessage"]:
        """The messages that were not delivered."""
        return [message for message, _ in self.failed]
