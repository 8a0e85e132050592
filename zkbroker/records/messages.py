"""Builds message sets of magic 0 and 1. `layout` has the diagram.

A compressed message's value is itself a message set, one level deep:

    magic 0     inner offsets are absolute
    magic 1     inner offsets are relative to the first, 0, 1, 2 ...; the wrapper's offset is the
                last one's, its timestamp the largest; with LogAppendTime the wrapper's timestamp
                counts for all inner messages

Invariant: a wrapper contains only whole, uncompressed messages of its own magic.
"""

from collections.abc import Sequence

from zkbroker.records import kernels
from zkbroker.records.codec import Codec, compress
from zkbroker.records.layout import TIMESTAMP_TYPE_BIT
from zkbroker.records.portable.messages import encode_message
from zkbroker.records.record import Record, Unsent


def build_message_set(
    records: Sequence[Unsent],
    magic: int,
    *,
    base_offset: int = 0,
    offsets: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    append_time: int | None = None,
) -> bytes:
    """Build a message set, wrapped into one message if there is a codec.

    Args:
        records: key, value, timestamp in ms, headers (dropped); at least one.
        magic: 0 or 1.
        base_offset: of the first record; the others follow densely.
        offsets: ascending offsets of the records, in place of `base_offset`.
        codec: of the wrapper.
        level: of the codec.
        append_time: magic 1: the time in ms of the type LogAppendTime; None for CreateTime.
    """
    if magic == 0:
        append_time = None
    if offsets is not None and offsets[-1] - offsets[0] == len(offsets) - 1:
        base_offset, offsets = offsets[0], None
    last = base_offset + len(records) - 1 if offsets is None else offsets[-1]
    if codec and magic == 1:
        if offsets is None:
            base_offset = 0
        else:
            offsets = [offset - offsets[0] for offset in offsets]
    # Genuine brokers also stamp the inner messages of a wrapper that they write.
    body = kernels.encode_messages(records, magic, base_offset, offsets, append_time)
    if not codec:
        return body
    newest = max(record[2] for record in records) if append_time is None else append_time
    return wrap_message_set(body, magic, last, newest, append_time is not None, codec, level=level)


def wrap_message_set(
    body: bytes | bytearray,
    magic: int,
    offset: int,
    timestamp: int,
    is_append_time: bool,
    codec: Codec,
    *,
    level: int | None = None,
) -> bytes:
    """Compress a message set into one message.

    Args:
        body: the inner message set.
        magic: 0 or 1.
        offset: of the last inner message.
        timestamp: magic 1: the largest inner one, or the append time, in ms.
        is_append_time: magic 1: the timestamp is the append time.
        codec: of the wrapper.
        level: of the codec.
    """
    payload = compress(codec, body, level=level, magic=magic)
    stamp = TIMESTAMP_TYPE_BIT if is_append_time else 0
    return encode_message(magic, offset, None, payload, timestamp, codec | stamp)


def unsent(records: Sequence[Record]) -> list[Unsent]:
    """Turn records into arguments of the builders."""
    return [(key, value, timestamp, headers) for _, timestamp, _, key, value, headers in records]
