"""The meaning of an error for a batch: send again, or the exception of its futures.

    passes by itself     broker or leader away, answer lost, not the leader any more   → again
    never passes         too large, invalid, not understood by the broker              → fail

Invariant: every exception that a future resolves to names the topic and what to change.
"""

from zkbroker.client import BrokerUnavailable, NoBrokersAvailable, PartitionInfo
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
    Cancelled,
    DeliveryTimedOut,
    KeyRequired,
    MessageTooLarge,
    TopicUnavailable,
)

INVALID = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
"""Errors for a message without a key to a compacted topic: 2 up to Kafka 2.3, 87 since 2.4."""
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
TOO_FEW_REPLICAS = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})

_WAIT = "wait longer by message.send.max.retries and retry.backoff.ms"


def may_pass(error: BaseException) -> bool:
    """Whether sending again may succeed without a change by the user."""
    if isinstance(error, ProtocolError):
        return error.code.retriable
    return isinstance(error, BrokerUnavailable | NoBrokersAvailable | RegistryError)


def code_of(error: BaseException) -> ErrorCode | None:
    """Return the code of an error; None where it has none."""
    return error.code if isinstance(error, ProtocolError) else None


def why_in_doubt(error: BaseException) -> str:
    """Return why the messages may be stored although the attempt failed; empty if they are not."""
    if isinstance(error, NetworkError | RequestTimedOut):
        return "an answer was lost"
    if code_of(error) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        return "the leader wrote them, and too few replicas confirmed it"
    return ""


def leader_is_away(error: BaseException) -> bool:
    """Whether the leader is being elected or not found yet, so that nothing was stored."""
    if isinstance(error, ProtocolError):
        return error.code in _LEADER_MOVES
    return isinstance(error, BrokerUnavailable)


def gave_up(where: str, attempts: int, error: BaseException, doubt: str, cure: str) -> ClientError:
    """Return the exception after the last attempt.

    Args:
        where: `topic t partition 0`, for the text.
        attempts: how many failed.
        error: the last one.
        doubt: why the messages may be stored; empty where they are not.
        cure: what to change, from `cure_of`.
    """
    kind: type[ClientError] = BrokersUnavailable
    if isinstance(error, UnknownTopicOrPartition | NotLeaderForPartition):
        kind = TopicUnavailable
    return kind(
        f"{where}: {attempts} attempts failed, the last with: {error}: {cure}{_caveat(doubt)}"
    )


def cure_of(error: BaseException, topic: str) -> str:
    """Return what to change after an error that did not pass; see `shortage` for replicas."""
    if isinstance(error, UnknownTopicOrPartition):
        return f"create topic {topic}, or set auto.create.topics.enable on the brokers"
    if isinstance(error, NotLeaderForPartition):
        return f"see which broker leads it, or {_WAIT}"
    code = code_of(error)
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return (
            "the broker cannot write to the disk of this partition, which may be full or broken: "
            "its log says why; repair it and start the broker again"
        )
    if code is ErrorCode.CORRUPT_MESSAGE:
        return "the messages were damaged on their way: check the broker's log and the network"
    if code is ErrorCode.LEADER_NOT_AVAILABLE:
        return f"otherwise {_WAIT}"
    return f"start the broker that leads it, or {_WAIT}"


def shortage(info: PartitionInfo | None, min_isr: str | None) -> str:
    """Return what to change when too few replicas are in sync for acks=all.

    Args:
        info: the partition; None if unknown.
        min_isr: `min.insync.replicas` of the topic; None if unknown.
    """
    wanted = "min.insync.replicas" + ("" if min_isr is None else f"={min_isr}")
    if info is None or not info.isr:
        return f"fewer replicas are in sync than {wanted} asks for: start the brokers that are away"
    away = [str(each) for each in info.replicas if each not in info.isr]
    found = f"{len(info.isr)} of {len(info.replicas)} replicas in sync, and {wanted}: "
    if away:
        return f"{found}start broker {', '.join(away)}, or lower that setting of the topic"
    if min_isr is None:
        return f"{found}give the topic as many replicas as that setting asks for, or {_WAIT}"
    if int(min_isr) > len(info.replicas):
        return f"{found}give the topic more replicas, or lower that setting of the topic"
    return f"{found}by now there are enough; send again, or {_WAIT}"


def key_required(where: str, error: BaseException) -> ClientError:
    """Return the exception for messages without a key that the broker refused."""
    return KeyRequired(
        f"{where}: the broker refuses messages without a key ({error}), as a compacted topic does: "
        "give each message a key, or take compact out of the topic's cleanup.policy"
    )


def too_large(topic: str, size: int) -> ClientError:
    """Return the exception for a single message that the broker refused for its size."""
    return MessageTooLarge(
        f"a message of {size} bytes to topic {topic} is larger than the broker takes: raise "
        "message.max.bytes there or max.message.bytes of the topic, compress, or send less"
    )


def timed_out(where: str, timeout_ms: int, error: BaseException | None, doubt: str) -> ClientError:
    """Return the exception for messages older than `delivery.timeout.ms`."""
    last = f"; the last failure: {error}" if error is not None else ""
    return DeliveryTimedOut(
        f"{where}: not acknowledged within delivery.timeout.ms={timeout_ms}{last}{_caveat(doubt)}"
    )


def cancelled(where: str, limit_s: float, error: BaseException | None, doubt: str) -> ClientError:
    """Return the exception for messages that were not delivered when the producer closed."""
    last = "no broker has answered yet" if error is None else f"the last failure: {error}"
    return Cancelled(
        f"{where}: not delivered when the producer closed after {limit_s:g} s; {last}: give close "
        f"more time, or fix the cause{_caveat(doubt)}"
    )


def _caveat(doubt: str) -> str:
    return f"; {doubt}, so the messages may be stored" if doubt else ""
