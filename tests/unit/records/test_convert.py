import pytest

from zkbroker.errors import CorruptMessage, UnsupportedCompressionType
from zkbroker.records import (
    AppendPolicy,
    Codec,
    compress,
    convert,
    encode_message_set,
    iter_entries,
    iter_records,
    prepare_append,
)
from zkbroker.records.batch import build_batch
from zkbroker.records.entries import seal_batch

RECORDS = [(b"k%d" % i, b"v%d" % i, 1000 + i, (("h", b"x"),)) for i in range(4)]


def batch(base_offset, codec=Codec.NONE, **more):
    return encode_message_set(RECORDS, codec=codec, base_offset=base_offset, **more)


def marker(base_offset):
    return build_batch(
        [(b"\x00\x00\x00\x01", bytes(6), 1, ())],
        base_offset=base_offset,
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def test_conversion_to_magic_1_drops_headers_and_control_batches():
    stored = batch(0, producer_id=1, base_sequence=0, is_transactional=True) + marker(4) + batch(5)
    down = convert(stored, 1)
    assert [(r.offset, r.key, r.timestamp, r.headers) for r in iter_records(down)] == [
        (offset, b"k%d" % i, 1000 + i, ())
        for base in (0, 5)
        for i, offset in enumerate(range(base, base + 4))
    ]


def test_conversion_to_magic_0_drops_timestamps():
    one = encode_message_set([(*r[:3], ()) for r in RECORDS], magic=1, base_offset=3)
    for stored in (one, batch(3)):
        down = convert(stored, 0)
        assert [(r.offset, r.timestamp, r.timestamp_type) for r in iter_records(down)] == [
            (offset, -1, -1) for offset in range(3, 7)
        ]


def test_old_entries_are_not_converted():
    old = encode_message_set([(None, b"v", -1, ())], magic=0, codec=Codec.GZIP)
    assert convert(old + batch(1), 1)[: len(old)] == old
    assert convert(old + batch(1), 2) == old + batch(1)


def test_first_zstd_batch_is_refused_and_later_one_ends_conversion():
    with pytest.raises(UnsupportedCompressionType):
        convert(batch(0, Codec.ZSTD), 1)
    down = convert(batch(0) + batch(4, Codec.ZSTD) + batch(8), 1)
    assert [r.offset for r in iter_records(down)] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_before_first_offset_are_left_out(codec):
    down = convert(batch(0, codec) + batch(4, codec), 1, first_offset=6)
    assert [r.offset for r in iter_records(down)] == [6, 7]
    assert {entry.codec for entry in iter_entries(down)} == {codec}


@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_conversion_keeps_offset_gaps(to_magic, codec):
    # As after compaction: offsets 10 and 13 of a batch that begins at 10.
    sparse = bytearray(encode_message_set(RECORDS[:2], codec=Codec.NONE, base_offset=10))
    second = sparse.rindex(b"\x02\x04k1")  # offset delta 1, key length 2
    sparse[second] = 6
    sparse[23:27] = (3).to_bytes(4, "big")
    if codec:
        sparse[61:] = compress(codec, sparse[61:])
        sparse[8:12] = (len(sparse) - 12).to_bytes(4, "big")
        sparse[22] = codec
    seal_batch(sparse)
    down = convert(sparse, to_magic)
    assert [r.offset for r in iter_records(down)] == [10, 13]
    assert {entry.codec for entry in iter_entries(down)} == {codec}


def test_partial_entry_at_end_is_dropped():
    assert convert(batch(0) + batch(4)[:-1], 1) == convert(batch(0), 1)


def test_corrupt_batch_is_not_converted():
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        convert(damaged, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_large_batch_is_converted_in_pieces(codec):
    records = [(b"k", b"%d" % at, 1000 + at, ()) for at in range(25_001)]
    data = prepare_append(
        bytearray(encode_message_set(records, codec=codec)), 700, AppendPolicy(), 0
    ).data
    for magic in (0, 1):
        converted = convert(bytes(data), magic, first_offset=711)
        found = [(record.offset, record.value) for record in iter_records(converted)]
        assert found == [(700 + at, b"%d" % at) for at in range(11, 25_001)]
        if codec:
            entries = iter_entries(converted, verify_crc=True)
            assert [entry.last_offset for entry in entries] == [10_710, 20_710, 25_700]
