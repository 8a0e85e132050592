"""The shapes of plain requests, and of the rows of their answers.

Requests are tuples that the C twin makes without a constructor: the first field is the API's
number, the last one the topics in their order, each with its rows. Places count, not names:
`tests/unit/protocol/test_portable.py` compares each with the codec's field of that name.
"""

from typing import TypeAlias

from zkbroker.fileslice import FileSlice
from zkbroker.protocol.pieces import Records

ProduceRow: TypeAlias = tuple[int, Records]
"""Partition and its record set: of a plain request a view of the frame."""

FetchRow: TypeAlias = tuple[int, int, int, int, int]
"""Partition, current leader epoch, fetch offset, log start offset, max bytes."""

PlainProduce: TypeAlias = tuple[
    int, int, int, str | None, str | None, int, int, list[tuple[str, list[ProduceRow]]]
]
"""0, version, correlation id, client id, transactional id, acks, timeout in ms, topics."""

PlainFetch: TypeAlias = tuple[
    int,
    int,
    int,
    str | None,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    list[tuple[str, list[FetchRow]]],
]
"""1, version, correlation id, client id, replica id, max wait in ms, min bytes, max bytes,
isolation level, session id, session epoch, topics."""

ProduceAnswerRow: TypeAlias = tuple[int, int, int, int, int]
"""Partition, error, base offset, log append time in ms, log start offset."""

FetchAnswerRow: TypeAlias = tuple[
    int, int, int, int, int, list[tuple[int, int]] | None, int, FileSlice | bytes
]
"""Partition, error, high watermark, last stable offset, log start offset, aborted transactions
(producer id, first offset), bytes of records, the records."""
