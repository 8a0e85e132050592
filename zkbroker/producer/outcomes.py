"""What an error means for a batch: send again, or which exception its futures get.

    passes by itself     broker or leader away, answer lost, not the leader any more   → again
    never passes         too large, invalid, not understood by the broker              → fail

Invariant: every exception that a future resolves to names the topic and what to change.
"""

from zkbroker.client import BrokerUnavailable, NoBrokersAvailable
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    NotLeaderForPartition,
    ProtocolError,
    RegistryError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from zkbroker.producer.errors import (
    BrokersUnavailable,
    DeliveryTimedOut,
    MessageTooLarge,
    TopicUnavailable,
)

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


def may_pass(error: BaseException) -> bool:
    """Whether sending again may succeed without a change by the user."""
    if isinstance(error, ProtocolError):
        return error.code.retriable
    return isinstance(error, BrokerUnavailable | NoBrokersAvailable | RegistryError)


def may_be_stored(error: BaseException) -> bool:
    """Whether what was sent may have been stored all the same.

    Either the answer was lost, or the leader has it and did not see the in-sync replicas take it.
    """
    if isinstance(error, NetworkError | RequestTimedOut):
        return True
    return getattr(error, "code", None) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def leader_is_away(error: BaseException) -> bool:
    """Whether a leader is being elected, or not found yet; nothing was stored."""
    if isinstance(error, ProtocolError):
        return error.code in _LEADER_MOVES
    return isinstance(error, BrokerUnavailable)


def gave_up(
    topic: str, where: str, attempts: int, error: BaseException, uncertain: bool
) -> ClientError:
    """Return the exception after the last attempt.

    Args:
        topic: of the messages.
        where: `topic t partition 0`, for the text.
        attempts: how many failed.
        error: the last one.
        uncertain: whether an answer was lost, so that the messages may be stored.
    """
    tried = f"{where}: {attempts} attempts failed, the last with: {error}"
    doubt = "; an answer was lost, so the messages may be stored" if uncertain else ""
    if isinstance(error, UnknownTopicOrPartition):
        return TopicUnavailable(
            f"{tried}: create topic {topic}, or set auto.create.topics.enable on the brokers{doubt}"
        )
    if isinstance(error, NotLeaderForPartition):
        return TopicUnavailable(
            f"{tried}: see which broker hosts it, or wait longer by message.send.max.retries and "
            f"retry.backoff.ms{doubt}"
        )
    if isinstance(error, ProtocolError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return BrokersUnavailable(
            f"{tried}: the broker cannot write to the disk of this partition, which may be full or "
            f"broken: its log says why; mend that and start the broker again{doubt}"
        )
    return BrokersUnavailable(
        f"{tried}: start the broker that hosts it, or wait longer by message.send.max.retries and "
        f"retry.backoff.ms{doubt}"
    )


def too_large(topic: str, size: int) -> ClientError:
    """Return the exception for a single message that the broker refused for its size."""
    return MessageTooLarge(
        f"a message of {size} bytes to topic {topic} is larger than the broker takes: raise "
        "message.max.bytes there or max.message.bytes of the topic, compress, or send less"
    )


def timed_out(
    where: str, timeout_ms: int, error: BaseException | None, uncertain: bool
) -> ClientError:
    """Return the exception for messages that got too old."""
    last = f"; the last failure: {error}" if error is not None else ""
    doubt = "; an answer was lost, so the messages may be stored" if uncertain else ""
    return DeliveryTimedOut(
        f"{where}: not acknowledged within delivery.timeout.ms={timeout_ms}{last}{doubt}"
    )
