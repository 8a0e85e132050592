"""Plain requests: nearly all produces and fetches; one call reads one, and one makes its answer.

A request is plain when it is a Produce or a Fetch of a served version, with few partitions and
nothing unusual:

    Produce   acks is 0, 1 or -1; no record set is null, and none is empty from version 3 on
    Fetch     it has no session: from a client, or from a follower without one
    both      topics and partitions together are `MAX_ITEMS` at most, no list is empty, texts are
              UTF-8 and lengths fit

`read_plain` returns None for every other request, without a reason: `zkbroker.protocol.framing`
decodes such a request from the same bytes, and also finds its errors. The answers equal those of
`encode_response`, byte for byte.

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
"""Most topics and partitions of a plain request; a longer one is read with pauses for others."""

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
