"""Bytes of a 0.7 log as messages of a stream."""

from zkbroker.consumer.fetching.partition import ReadProgress, next_after
from zkbroker.errors import CorruptMessage
from zkbroker.legacy07 import Partition07, decode_chunk07
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper

ONE = build_message(b"one", magic=0)
WRAPPER = build_wrapper(Codec.SNAPPY, build_message(b"a") + build_message(b"b"))


def test_message_offset_is_next_position():
    partition = Partition07(3, 1)
    chunk = decode_chunk07("t", partition, ONE + WRAPPER, 100)
    start, end = 100 + len(ONE), 100 + len(ONE + WRAPPER)
    assert [(m.value, m.offset) for m in chunk.messages] == [
        (b"one", start),
        (b"a", start),
        (b"b", end),
    ]
    assert (chunk.count, chunk.last_offset, chunk.error) == (3, end, None)


def test_messages_before_corrupt_entry_are_returned_with_error():
    bad = bytearray(ONE)
    bad[-1] ^= 1
    chunk = decode_chunk07("t", Partition07(0, 0), ONE + bytes(bad), 0)
    messages = list(chunk.messages)
    assert [m.value for m in messages] == [b"one"]
    assert {(m.key, m.timestamp, m.timestamp_type, m.headers) for m in messages} == {
        (None, -1, -1, ())
    }
    assert chunk.last_offset == len(ONE)
    assert isinstance(chunk.error, CorruptMessage)


def test_next_position_adds_no_step():
    progress = ReadProgress(70, 0)
    assert next_after(progress, in_hand=True) == 70
    progress.delivered = 90
    assert next_after(progress, in_hand=True) == 90
    assert next_after(progress, in_hand=False) == 70
