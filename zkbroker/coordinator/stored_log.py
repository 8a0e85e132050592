"""The state that the coordinators of groups and transactions keep in an internal topic.

Invariant: the state of a partition equals the result of reading it whole from its start: the last
record of each key wins, a null value removes the key.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from zkbroker.errors import ErrorCode, ProtocolError, StorageError, ZkbrokerError
from zkbroker.protocol.java_hash import string_hash
from zkbroker.records import RecordLists, decode_lists
from zkbroker.runtime import Lock, Park, unparked


class AppendInfo(Protocol):
    """The result of an append."""

    @property
    def last_offset(self) -> int: ...


class PartitionLog(Protocol):
    """A partition that is led here, as a coordinator uses it (`zkbroker.replica.stored_log`)."""

    @property
    def lock(self) -> Lock:
        """Held during an append; whoever holds it sees the state that his own append changes."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    def append(
        self, data: bytearray, *, now_ms: int | None = None, verification: Any = None
    ) -> AppendInfo: ...
    def begin_verification(self, producer_id: int, producer_epoch: int) -> Any: ...
    def wait_durable(
        self, last_offset: int, timeout_s: float | None = None, park: Park = unparked
    ) -> None: ...
    def read_bytes(self, offset: int, max_bytes: int) -> bytes: ...


_OF_THE_LOG: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NOT_LEADER_FOR_PARTITION: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def write_error(
    error: ZkbrokerError, instead: Mapping[ErrorCode, ErrorCode] | None = None
) -> ErrorCode:
    """Return the code that a coordinator answers when its record was not written.

    The codes are those of genuine brokers (GroupMetadataManager, TransactionStateManager): they
    make clients look for the coordinator again, where the log's own codes are unknown to them.

    Args:
        error: of the append, or of the wait for the replicas.
        instead: code → the code that one kind of request answers in its place.
    """
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(error, StorageError):
        code = ErrorCode.KAFKA_STORAGE_ERROR
    elif isinstance(error, ProtocolError):
        code = error.code
    return {**_OF_THE_LOG, **(instead or {})}.get(code, code)


def key_partition(key: str, partitions: int) -> int:
    """Return the partition that holds a group or transactional id, as genuine brokers do."""
    value = string_hash(key)
    return (0 if value == -0x8000_0000 else abs(value)) % partitions


def read_all(
    log: PartitionLog, load_bytes: int, pause: Callable[[], None]
) -> Iterator[tuple[bytes, RecordLists]]:
    """Yield the contents of a partition, from its start to its end, piece by piece.

    Args:
        log: the partition.
        load_bytes: how much to read at once.
        pause: called between reads, so that other tasks get their turn.

    Yields:
        Whole entries, perhaps with an incomplete one at the end, and the messages in them.

    Raises:
        StorageError: the log cannot be read, or an entry in it is corrupt.
    """
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = log.read_bytes(position, load_bytes)
        if not data:
            break  # a power cut destroyed the end of the last segment but one
        read = decode_lists(data, start_offset=position)
        yield data, read
        if read.error is not None or read.next_offset <= position:
            raise StorageError(f"unreadable at offset {read.next_offset}: {read.error}")
        position = read.next_offset
        pause()
