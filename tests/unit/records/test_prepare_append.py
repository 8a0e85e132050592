import pytest

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import AppendPolicy, Codec, MessageSetBuilder, iter_records, prepare_append

CODECS = [
    (magic, codec) for magic in (0, 1, 2) for codec in Codec if magic == 2 or codec != Codec.ZSTD
]


def make(magic, codec, count=5):
    builder = MessageSetBuilder(magic, codec)
    for index in range(count):
        builder.append(b"k%d" % index, b"v" * index, 1000 + index)
    return builder.build()


@pytest.mark.parametrize(("magic", "codec"), CODECS)
def test_offsets_are_assigned_and_the_records_kept(magic, codec):
    prepared = prepare_append(bytearray(make(magic, codec)), 700, AppendPolicy(), 0)
    records = list(iter_records(prepared.data))
    assert [r.offset for r in records] == [700, 701, 702, 703, 704]
    assert [r.value for r in records] == [b"v" * index for index in range(5)]
    assert (prepared.first_offset, prepared.last_offset, prepared.count) == (700, 704, 5)
    assert prepared.max_timestamp == (-1 if magic == 0 else 1004)


@pytest.mark.parametrize(("magic", "codec"), CODECS)
def test_every_flipped_bit_is_refused_or_harmless(magic, codec):
    data = make(magic, codec, 2)
    want = [(r.key, r.value) for r in iter_records(data)]
    for at in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        try:
            prepared = prepare_append(damaged, 0, AppendPolicy(), 0)
        except (CorruptMessage, MessageSizeTooLarge):
            continue
        assert [(r.key, r.value) for r in iter_records(prepared.data)] == want
