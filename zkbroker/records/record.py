"""A record and the head of a stored entry, in a form that all magics share."""

from typing import Final, NamedTuple

from zkbroker.errors import CorruptMessage

NO_TIMESTAMP: Final = -1
NO_TIMESTAMP_TYPE: Final = -1
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

TIMESTAMP_TYPE_NAMES: Final = {
    NO_TIMESTAMP_TYPE: "NoTimestampType",
    0: "CreateTime",
    1: "LogAppendTime",
}

Headers = tuple[tuple[str, bytes | None], ...]
# A producer's record: key, value, timestamp in ms, headers.
Unsent = tuple[bytes | None, bytes | None, int, Headers]


class Record(NamedTuple):
    """One record as a reader sees it.

    `timestamp` is in ms since 1970, -1 for none; `timestamp_type` is 0 for the creator's time, 1
    for the log's, -1 for none (magic 0).
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class EntryInfo(NamedTuple):
    """The head of one entry: a message of magic 0 or 1, or a batch of magic 2.

    `position` and `size` are in bytes; `size` includes the 12 bytes of offset and length. A
    compressed magic-0/1 wrapper has `record_count` -1, and `base_offset` equals `last_offset`: only
    its contents tell more.
    """

    position: int
    size: int
    magic: int
    codec: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    timestamp_type: int
    record_count: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_control: bool = False
    is_transactional: bool = False
    partition_leader_epoch: int = -1


class PartialEntry(CorruptMessage):
    """The bytes end before the entry does: the normal end of a fetch or of a torn append."""
