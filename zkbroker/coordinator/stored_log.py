"""What the coordinators of groups and of transactions keep in a partition of an internal topic.

Invariant: what is known is what a reader of the whole partition from its start ends up with: the
last record of each key wins, a null value removes the key.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from zkbroker.errors import StorageError
from zkbroker.protocol.java_hash import string_hash
from zkbroker.records import RecordLists, decode_lists
from zkbroker.runtime import Park, unparked


class AppendInfo(Protocol):
    """What an append says of where it went."""

    @property
    def last_offset(self) -> int: ...


class PartitionLog(Protocol):
    """A partition that is led here, as a coordinator uses it (`zkbroker.replica.stored_log`)."""

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


def key_partition(key: str, partitions: int) -> int:
    """Return the partition that holds a group or transactional id, as genuine brokers compute it.

    Args:
        key: the group's name, or the transactional id.
        partitions: how many the internal topic has.
    """
    value = string_hash(key)
    return (0 if value == -0x8000_0000 else abs(value)) % partitions


def read_all(
    log: PartitionLog, load_bytes: int, pause: Callable[[], None]
) -> Iterator[tuple[bytes, RecordLists]]:
    """Yield what a partition holds, from its start to its end, piece by piece.

    Args:
        log: the partition.
        load_bytes: how much is read at once.
        pause: called between reads, so that others get their turn.

    Yields:
        Whole entries, perhaps with a cut one at the end, and the messages in them.

    Raises:
        StorageError: the log cannot be read, or an entry in it is corrupt.
    """
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = log.read_bytes(position, load_bytes)
        if not data:
            break  # a power cut took the end of the last segment but one
        read = decode_lists(data, start_offset=position)
        yield data, read
        if read.error is not None or read.next_offset <= position:
            raise StorageError(f"unreadable at offset {read.next_offset}: {read.error}")
        position = read.next_offset
        pause()
