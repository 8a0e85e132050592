"""Keys and values of the topic `__transaction_state`, as genuine brokers write and read them.

    key     version:int16 = 0  transactional_id:string
    value   version:int16 = 0  producer_id:int64  producer_epoch:int16  timeout_ms:int32  state:int8
            [topic:string [partition:int32]] (null in Empty)  last_update_ms:int64  start_ms:int64

A null value (a tombstone) removes the transactional id. `start_ms` is -1 in Empty.

Invariant: one record holds the whole state of a transactional id; the last record of a key wins.
"""

from dataclasses import dataclass
from enum import IntEnum

from zkbroker.protocol.codec import decode_versioned, encode_versioned, read_version
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.schema import array, int8, int16, int32, int64, string

TRANSACTION_TOPIC = "__transaction_state"
_WHAT = "record of the transaction topic"


class TransactionState(IntEnum):
    """The state of a transaction, by its number in a record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_STORED = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}
"""The states in records. A removed id is a tombstone, and fencing begins with PrepareAbort."""


@dataclass(frozen=True, slots=True)
class _Key:
    transactional_id: str = string()


@dataclass(frozen=True, slots=True)
class TransactionValue:
    """The state of a transactional id.

    Args:
        producer_id: the producer of its transactions.
        producer_epoch: of the latest instance; it fences lower epochs.
        timeout_ms: an ongoing transaction is aborted after this time.
        state: a `TransactionState`.
        topics: partitions of the ongoing transaction; None in Empty, no item in Complete*.
        last_update_ms: the time of the last change.
        start_ms: when the transaction began; -1 in Empty.
    """

    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    timeout_ms: int = int32()
    state: int = int8()
    topics: list[TxnTopicPartitions] | None = array(TxnTopicPartitions, nullable=0, default=None)
    last_update_ms: int = int64(default=-1)
    start_ms: int = int64(default=-1)


def encode_transaction_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's record."""
    return encode_versioned(_Key(transactional_id), 0)


def decode_transaction_key(data: bytes | memoryview) -> str | None:
    """Return the transactional id; None for a later version, whose record must be skipped.

    Raises:
        MalformedFrame: the bytes are not a key.
    """
    if read_version(data, _WHAT) != 0:
        return None
    return decode_versioned(_Key, 0, data).transactional_id


def encode_transaction(value: TransactionValue) -> bytes:
    """Return the value of a record."""
    return encode_versioned(value, 0)


def decode_transaction(data: bytes | memoryview) -> TransactionValue:
    """Read the value of a record.

    Raises:
        MalformedFrame: the bytes are not a value, or have an unknown version.
    """
    version = read_version(data, _WHAT)
    if version != 0:
        raise MalformedFrame(f"transaction value of version {version}")
    value = decode_versioned(TransactionValue, 0, data)
    if value.state not in _STORED:
        raise MalformedFrame(f"transaction state {value.state}")
    if value.producer_id < 0 or value.producer_epoch < 0:
        raise MalformedFrame(
            f"transaction of producer {value.producer_id} epoch {value.producer_epoch}"
        )
    return value
