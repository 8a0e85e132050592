import pytest

from zkbroker.errors import CorruptMessage
from zkbroker.records import (
    Codec,
    EntryInfo,
    PartialEntry,
    encode_message_set,
    iter_entries,
    set_offsets,
    verify_entry,
)

RECORDS = [(b"k", b"value", 1_000, ()), (None, b"other", 2_000, ())]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_truncated_entry_is_partial_at_every_byte(magic):
    data = encode_message_set(RECORDS[:1], magic=magic)
    for cut in range(len(data)):
        with pytest.raises(PartialEntry):
            verify_entry(data[:cut])
        assert list(iter_entries(data[:cut])) == []
    assert verify_entry(data).size == len(data)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_flipped_bit_under_crc_is_corrupt(magic):
    data = encode_message_set(RECORDS[:1], magic=magic)
    free = {*range(8), *(range(12, 16) if magic == 2 else ())}
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit // 8 in free:
            continue
        with pytest.raises(CorruptMessage):
            verify_entry(damaged)


def test_batch_header_is_decoded():
    data = encode_message_set(
        RECORDS,
        codec=Codec.LZ4,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=True,
        base_offset=100,
    )
    head = verify_entry(b"junk" + data, 4)
    assert head == EntryInfo(
        4, len(data), 2, 3, 100, 101, 1_000, 2_000, 0, 2, head.crc, 7, 3, 11, False, True, -1
    )


def test_wrapper_header_has_only_last_offset():
    data = encode_message_set(RECORDS, magic=1, codec=Codec.GZIP, base_offset=100)
    head = verify_entry(data)
    assert (head.base_offset, head.last_offset, head.record_count) == (101, 101, -1)
    assert head.max_timestamp == 2_000


def test_set_offsets_keeps_crc_valid():
    data = bytearray(encode_message_set(RECORDS))
    set_offsets(data, 0, 5_000, 9)
    head = verify_entry(data)
    assert (head.base_offset, head.last_offset, head.partition_leader_epoch) == (5_000, 5_001, 9)
    set_offsets(data, 0, 6_000)
    assert verify_entry(data).partition_leader_epoch == 9
