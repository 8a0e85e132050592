"""The inner loops as the rest of this room calls them."""

from zkbroker.records.portable import decode_columns, decode_lists, decode_records

__all__ = ["decode_columns", "decode_lists", "decode_records"]
