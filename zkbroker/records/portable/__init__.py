"""The inner loops in plain Python; `_speedups` is their twin in C, `kernels` chooses one.

Invariant: for the same arguments both return the same results, and refuse the same input with the
same class of error; the property tests run against both.
"""

from zkbroker.records.portable.batch import encode_records, place_batch, scan_records
from zkbroker.records.portable.compact import filter_entries, map_keys
from zkbroker.records.portable.messages import (
    assign_messages,
    encode_messages,
    end_of_plain,
)
from zkbroker.records.portable.placing import place_plain
from zkbroker.records.portable.plain07 import plain_messages, plain_records
from zkbroker.records.portable.walk import (
    decode_columns,
    decode_lists,
    decode_records,
    decode_rows,
    end_of_entries,
    entry_head,
)

__all__ = [
    "assign_messages",
    "decode_columns",
    "decode_lists",
    "decode_records",
    "decode_rows",
    "encode_messages",
    "encode_records",
    "end_of_entries",
    "end_of_plain",
    "entry_head",
    "filter_entries",
    "map_keys",
    "place_batch",
    "place_plain",
    "plain_messages",
    "plain_records",
    "scan_records",
]
