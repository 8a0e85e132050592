"""The inner loops as the rest of this room calls them."""

from zkbroker.records.portable import (
    assign_messages,
    decode_columns,
    decode_lists,
    decode_records,
    encode_messages,
    encode_records,
    scan_records,
)

__all__ = [
    "assign_messages",
    "decode_columns",
    "decode_lists",
    "decode_records",
    "encode_messages",
    "encode_records",
    "scan_records",
]
