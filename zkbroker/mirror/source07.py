"""Log entries of a Kafka 0.7 source as records.

Messages of 0.7 have neither key nor time nor header. A mirrored one has no key, the time at which
it was read, and the codec of the wrapper that it lay in.

Invariant: each message of the bytes is in exactly one piece, in the order of the log; checksums
were verified before it is passed on.
"""

import time
from collections.abc import Iterator

from zkbroker.mirror.pieces import Decoded, in_batches
from zkbroker.records import Codec
from zkbroker.records.legacy07 import entries, messages
from zkbroker.records.record import Unsent


def cut07(data: bytes | memoryview, *, max_bytes: int) -> Iterator[Decoded]:
    """Cut fetched bytes of a 0.7 log into pieces of about `max_bytes`, before compression.

    Args:
        data: whole entries.
        max_bytes: about the most of one piece.

    Raises:
        CorruptMessage: the pieces before it came out.
    """
    now_ms = int(time.time() * 1000)
    view = memoryview(data)
    row: list[Unsent] = []
    codec = Codec.NONE
    for entry in entries(view):
        if row and entry.codec != codec:
            yield from _pieces(row, codec, max_bytes)
            row = []
        codec = Codec(entry.codec) if entry.codec <= Codec.SNAPPY else Codec.NONE
        inside = messages(view[entry.position : entry.end], 0)
        row += [(None, each.payload, now_ms, ()) for each in inside]
    yield from _pieces(row, codec, max_bytes)


def _pieces(row: list[Unsent], codec: Codec, max_bytes: int) -> Iterator[Decoded]:
    for records in in_batches(row, max_bytes):
        yield Decoded(records, codec)
