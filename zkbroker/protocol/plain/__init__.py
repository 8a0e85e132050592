"""Plain requests: nearly all produces and fetches, decoded in one call and answered in one.

A request is plain if it is a Produce or a Fetch of a served version with few partitions and nothing
unusual:

    Produce   acks is 0, 1 or -1; no record set is null, and since version 3 none is empty
    Fetch     continues no fetch session; one of a follower has a version below 7
    both      at most `MAX_ITEMS` topics and partitions together, no list is empty, strings are
              UTF-8, and lengths are valid

For every other request `read_plain` returns None without a reason: `zkbroker.protocol.framing` then
decodes the same bytes, and reports errors in them. The answers equal those of `encode_response`,
byte for byte.

Invariant: a plain request has the same content in `decode_request`. The functions are in C if the
extension was built, else in Python (`portable`); `ZKBROKER_PURE_PYTHON=1` chooses Python.
"""

import os
from typing import Final

from zkbroker.protocol.plain.requests import (
    FetchAnswerRow,
    FetchRow,
    PlainFetch,
    PlainProduce,
    ProduceAnswerRow,
    ProduceRow,
)

try:
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        raise ImportError("pure Python was requested")
    from zkbroker.protocol._speedups import fetch_answer, produce_answer, read_plain

    NATIVE = True
except ImportError:
    from zkbroker.protocol.plain.portable import fetch_answer, produce_answer, read_plain

    NATIVE = False

MAX_ITEMS: Final = 64
"""The most topics and partitions of a plain request; the codec lets others run within longer ones.
"""

__all__ = [
    "MAX_ITEMS",
    "NATIVE",
    "FetchAnswerRow",
    "FetchRow",
    "PlainFetch",
    "PlainProduce",
    "ProduceAnswerRow",
    "ProduceRow",
    "fetch_answer",
    "produce_answer",
    "read_plain",
]
