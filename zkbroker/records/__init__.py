"""Message formats: bytes to records and back, for magic 0, 1 and 2; no sockets, no files."""

from zkbroker.records.append import is_one_batch, prepare_append
from zkbroker.records.builder import MessageSetBuilder, encode_message_set
from zkbroker.records.checksum import crc32, crc32c
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from zkbroker.records.convert import convert
from zkbroker.records.decode import (
    Columns,
    RecordLists,
    decode_columns,
    decode_lists,
    decode_rows,
    iter_records,
    offset_after,
)
from zkbroker.records.entries import set_offsets
from zkbroker.records.expand import (
    NOTHING,
    Expanded,
    RequestBudget,
    expand_set,
)
from zkbroker.records.heads import iter_entries, verify_entry
from zkbroker.records.policy import AppendPolicy, PreparedSet, check_produce
from zkbroker.records.portable.walk import decode_entry
from zkbroker.records.record import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    EntryInfo,
    PartialEntry,
    Record,
)
from zkbroker.records.reframe import may_reframe, reframe
from zkbroker.records.transactions import (
    ABORT,
    COMMIT,
    AbortedBatches,
    Marker,
    committed_only,
    control_batch,
    control_type,
    read_marker,
)

__all__ = [
    "ABORT",
    "COMMIT",
    "AbortedBatches",
    "committed_only",
    "control_batch",
    "Marker",
    "control_type",
    "read_marker",
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "MAX_DECOMPRESSED_BYTES",
    "Codec",
    "compress",
    "decompress",
    "crc32",
    "crc32c",
    "Record",
    "EntryInfo",
    "PartialEntry",
    "iter_entries",
    "verify_entry",
    "iter_records",
    "offset_after",
    "decode_entry",
    "decode_lists",
    "decode_rows",
    "RecordLists",
    "decode_columns",
    "Columns",
    "MessageSetBuilder",
    "encode_message_set",
    "convert",
    "AppendPolicy",
    "PreparedSet",
    "check_produce",
    "prepare_append",
    "RequestBudget",
    "expand_set",
    "is_one_batch",
    "Expanded",
    "NOTHING",
    "set_offsets",
    "may_reframe",
    "reframe",
]
