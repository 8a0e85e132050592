from collections.abc import Sequence
from typing import Any, TypeVar

from zkbroker.records.entries import Data
from zkbroker.records.portable.walk import ColumnTuple, DecodeError, Lists, Walked
from zkbroker.records.record import EntryInfo, Record, Unsent

Row = TypeVar("Row", bound=tuple[Any, ...])

def decode_records(
    data: Data,
    position: int,
    start: int,
    end: int,
    verify: bool,
    max_bytes: int,
    max_records: int,
) -> tuple[list[Record], int, int, DecodeError | None]: ...
def decode_rows(
    data: Data,
    start: int,
    end: int,
    verify: bool,
    max_bytes: int,
    row_type: type[Row],
    topic: str,
    partition: int,
) -> tuple[list[Row], int, DecodeError | None]: ...
def decode_lists(data: Data, start: int, end: int, verify: bool, max_bytes: int) -> Lists: ...
def decode_columns(
    data: Data, start: int, end: int, verify: bool, headers: bool, max_bytes: int
) -> ColumnTuple: ...
def entry_head(data: Data, position: int, verify: bool) -> EntryInfo | None: ...
def end_of_entries(data: Data) -> Walked: ...
def encode_records(records: Sequence[Unsent], base_timestamp: int) -> tuple[bytearray, int]: ...
def encode_messages(
    records: Sequence[Unsent],
    magic: int,
    base_offset: int,
    offsets: Sequence[int] | None,
    append_time: int | None,
) -> bytes: ...
def scan_records(
    buf: Data, count: int, last_delta: int, base_timestamp: int
) -> tuple[int, int, int, bool]: ...
def end_of_plain(data: Data, position: int, max_bytes: int) -> int: ...
def assign_messages(
    buffer: memoryview,
    position: int,
    magic: int,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    append_time: int | None,
) -> tuple[int, int, int, int]: ...
def place_batch(
    buffer: Data,
    position: int,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    epoch: int,
) -> tuple[EntryInfo, int] | None: ...
def place_plain(
    data: memoryview,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    epoch: int,
    magics: int,
) -> tuple[int, int, int, int, EntryInfo | None] | None: ...
def plain_messages(
    data: Data, position: int, kind: int, max_payload: int, limit: int, collect: bool
) -> tuple[int, int, list[bytes] | None]: ...
def plain_records(data: Data, position: int, end: int, first_delta: int) -> bytes: ...
def map_keys(
    table: bytearray | memoryview,
    used: int,
    limit: int,
    data: Data,
    position: int,
    shift: int,
    start: int,
    alone: bool,
) -> tuple[int, int, int, bool]: ...
def filter_entries(
    table: Data,
    data: Data,
    position: int,
    shift: int,
    end: int,
    keep_deletes: bool,
    alone: bool,
) -> tuple[bytes, int, int, int, int, bool]: ...
def crc32(data: Data) -> int: ...
def crc32c(data: Data) -> int: ...
