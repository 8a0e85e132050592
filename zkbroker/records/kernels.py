"""The inner loops of this room: in C where the extension was built, else in Python.

`ZKBROKER_PURE_PYTHON=1` in the environment chooses Python; `NATIVE` says which it is.
"""

import os

try:
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        raise ImportError("plain Python is asked for")
    from zkbroker.records._speedups import (
        assign_messages,
        decode_columns,
        decode_lists,
        decode_records,
        decode_rows,
        encode_messages,
        encode_records,
        end_of_entries,
        end_of_plain,
        entry_head,
        filter_entries,
        map_keys,
        place_batch,
        place_plain,
        plain_messages,
        plain_records,
        scan_records,
    )

    NATIVE = True
except ImportError:
    from zkbroker.records.portable import (
        assign_messages,
        decode_columns,
        decode_lists,
        decode_records,
        decode_rows,
        encode_messages,
        encode_records,
        end_of_entries,
        end_of_plain,
        entry_head,
        filter_entries,
        map_keys,
        place_batch,
        place_plain,
        plain_messages,
        plain_records,
        scan_records,
    )

    NATIVE = False

__all__ = [
    "NATIVE",
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
