"""Chunks of bytes become messages, from an offset on, up to the first entry that is damaged."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.consumer.fetching.decode import decode_chunk
from zkbroker.consumer.fetching.messages import MessageAndMetadata
from zkbroker.errors import CorruptMessage
from zkbroker.records import Codec


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_decoded_messages_have_topic_partition_and_record_fields(magic: int, codec: Codec) -> None:
    chunk = decode_chunk("t", 3, message_set(magic, 4, base=10, codec=codec), 12)
    messages = list(chunk.messages)
    assert all(type(each) is MessageAndMetadata for each in messages)
    assert [(each.topic, each.partition, each.offset) for each in messages] == [
        ("t", 3, 12),
        ("t", 3, 13),
    ]
    assert [each.value for each in messages] == [b"value 2", b"value 3"]
    assert {each.timestamp_type for each in messages} == {-1 if magic == 0 else 0}
    assert {each.headers for each in messages} == {()}
    assert (chunk.last_offset, chunk.count, chunk.error) == (13, 2, None)


def test_messages_before_corrupt_entry_are_delivered_with_error() -> None:
    second = bytearray(message_set(2, 2, base=2))
    second[-1] ^= 1
    chunk = decode_chunk("t", 0, message_set(2, 2) + bytes(second), 0)
    assert [each.offset for each in chunk.messages] == [0, 1]
    assert isinstance(chunk.error, CorruptMessage)
    assert (chunk.last_offset, chunk.count) == (1, 2)


def test_chunk_with_only_messages_below_start_offset_is_empty() -> None:
    chunk = decode_chunk("t", 0, message_set(2, 2), 7)
    assert (list(chunk.messages), chunk.last_offset, chunk.count) == ([], None, 0)
