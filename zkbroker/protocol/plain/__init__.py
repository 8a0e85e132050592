"""Plain requests: what nearly all produces and fetches are, read in one call and answered in one.

A request is plain when it is a Produce or a Fetch of a served version that names few partitions,
each with what it needs, and nothing unusual:

    Produce   acks is 0, 1 or -1; no record set is null, and none is empty from version 3 on
    Fetch     it is of no session: of a client, or of a follower that knows none
    both      topics and partitions together are `MAX_ITEMS` at most, no list is empty, texts are
              UTF-8 and lengths fit

`read_plain` returns None for every other request, and says nothing about why: such a request is
decoded by `zkbroker.protocol.framing`, from the same bytes, which also finds what is wrong with it.
The answers are those that `encode_response` would make, byte for byte.

Invariant: what is read here reads the same in `decode_request`. The functions are in C where the
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
        raise ImportError("plain Python is asked for")
    from zkbroker.protocol._speedups import fetch_answer, produce_answer, read_plain

    NATIVE = True
except ImportError:
    from zkbroker.protocol.plain.portable import fetch_answer, produce_answer, read_plain

    NATIVE = False

MAX_ITEMS: Final = 64
"""Topics and partitions of a plain request; a longer one is read with pauses for others."""

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
