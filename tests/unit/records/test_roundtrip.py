"""Records round-trip in all magics and codecs, with edge values."""

import itertools
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.record_strategies import FORMATS, formats_and_records
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import (
    AppendPolicy,
    Codec,
    MessageSetBuilder,
    convert,
    decode_columns,
    decode_lists,
    encode_message_set,
    iter_entries,
    iter_records,
    offset_after,
    portable,
    prepare_append,
)
from zkbroker.records.builder import max_encoded_bytes
from zkbroker.records.messages import wrap_message_set

OFFSETS = st.sampled_from([0, 1, 63, 64, 2**31, 2**40, 2**62])


def expected(magic, records, base_offset):
    kind = 0 if magic else -1
    return [
        (base_offset + index, timestamp, kind, key, value, headers)
        for index, (key, value, timestamp, headers) in enumerate(records)
    ]


@settings(deadline=None, derandomize=True, max_examples=120)
@given(formats_and_records(), OFFSETS)
def test_encoded_records_round_trip(case, base_offset):
    magic, codec, records = case
    data = encode_message_set(records, magic=magic, codec=codec, base_offset=base_offset)
    assert list(iter_records(data)) == expected(magic, records, base_offset)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.lists(formats_and_records(max_size=4), min_size=1, max_size=4), st.data())
def test_three_decoders_agree(cases, data):
    raw = b""
    offset = 0
    for magic, codec, records in cases:
        raw += encode_message_set(records, magic=magic, codec=codec, base_offset=offset)
        offset += len(records)
    start = data.draw(st.integers(0, offset))
    end = data.draw(st.one_of(st.none(), st.integers(start, offset)))
    one_by_one = list(iter_records(raw, start_offset=start))
    lists = decode_lists(raw, start_offset=start)
    assert lists.error is None
    assert lists.next_offset == offset
    found = zip(
        lists.offsets,
        lists.timestamps,
        lists.timestamp_types,
        lists.keys,
        lists.values,
        lists.headers or [()] * lists.count,
        strict=True,
    )
    assert list(found) == one_by_one
    columns = decode_columns(raw, start_offset=start, end_offset=end, headers=True)
    wanted = [r for r in one_by_one if end is None or r.offset < end]
    assert columns.count == len(wanted)
    assert list(array("q", bytes(columns.offsets))) == [r.offset for r in wanted]
    assert list(array("q", bytes(columns.timestamps))) == [r.timestamp for r in wanted]
    assert list(array("i", bytes(columns.timestamp_types))) == [r.timestamp_type for r in wanted]
    assert columns.headers == [r.headers for r in wanted]
    for field, offsets, content, validity in (
        ("key", columns.key_offsets, columns.key_data, columns.key_validity),
        ("value", columns.value_offsets, columns.value_data, columns.value_validity),
    ):
        ends = array("i", bytes(offsets))
        content = bytes(content)
        cells = [content[a:b] for a, b in itertools.pairwise(ends)]
        if validity is not None:
            bits = bytes(validity)
            cells = [c if bits[i >> 3] >> (i & 7) & 1 else None for i, c in enumerate(cells)]
        assert cells == [getattr(r, field) for r in wanted]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(formats_and_records(), OFFSETS)
def test_append_keeps_records_and_makes_offsets_dense(case, base_offset):
    magic, codec, records = case
    data = encode_message_set(records, magic=magic, codec=codec)
    prepared = prepare_append(bytearray(data), base_offset, AppendPolicy(), 0)
    assert list(iter_records(prepared.data)) == expected(magic, records, base_offset)
    assert (prepared.first_offset, prepared.count) == (base_offset, len(records))
    assert prepared.max_timestamp == max(r[2] for r in records)
    heads = list(iter_entries(prepared.data, verify_crc=True))
    assert heads[-1].last_offset == prepared.last_offset


@settings(deadline=None, derandomize=True, max_examples=100)
@given(formats_and_records(), st.sampled_from([0, 1, 2]), st.sampled_from([None, *Codec]))
def test_pinned_format_or_codec_keeps_records(case, pinned, target):
    magic, codec, records = case
    stored = codec if target is None else target
    if pinned < stored.first_magic:
        return
    data = encode_message_set(records, magic=magic, codec=codec)
    policy = AppendPolicy(message_format=pinned, codec=target)
    prepared = prepare_append(bytearray(data), 5, policy, 0)
    found = list(iter_records(prepared.data))
    assert [(r.offset, r.key, r.value) for r in found] == [
        (5 + index, r[0], r[1]) for index, r in enumerate(records)
    ]
    entries = list(iter_entries(prepared.data, verify_crc=True))
    assert {entry.magic for entry in entries} == {pinned}
    assert {entry.codec for entry in entries} == {stored}
    if magic and pinned:
        assert [r.timestamp for r in found] == [r[2] for r in records]
    if magic == 2 and pinned == 2:
        assert [r.headers for r in found] == [r[3] for r in records]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(formats_and_records(), st.sampled_from([0, 1]), OFFSETS)
def test_down_conversion_keeps_records_and_codec(case, to_magic, base_offset):
    magic, codec, records = case
    if to_magic < codec.first_magic:
        return
    data = encode_message_set(records, magic=magic, codec=codec, base_offset=base_offset)
    down = convert(data, to_magic)
    assert [(r.offset, r.key, r.value) for r in iter_records(down)] == [
        (base_offset + index, r[0], r[1]) for index, r in enumerate(records)
    ]
    assert {e.codec for e in iter_entries(down, verify_crc=True)} == {codec}
    assert max(e.magic for e in iter_entries(down)) <= to_magic


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_truncation_drops_only_partial_entry(magic, codec):
    records = [(b"k%d" % i, b"v" * 50, 1000 + i if magic else -1, ()) for i in range(3)]
    first = encode_message_set(records, magic=magic, codec=codec)
    second = encode_message_set(records, magic=magic, codec=codec, base_offset=3)
    whole = first + second
    ends = {e.position + e.size: e.last_offset + 1 for e in iter_entries(whole)}
    for cut in range(len(whole) + 1):
        want = max((count for end, count in ends.items() if end <= cut), default=0)
        assert [r.offset for r in iter_records(whole[:cut])] == list(range(want))
        lists = decode_lists(whole[:cut])
        assert (lists.count, lists.next_offset, lists.error) == (want, want, None)
        assert offset_after(whole[:cut]) == (want or None)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_corrupt_entry_is_reported_with_position(magic, codec):
    records = [(None, b"v" * 50, -1, ())] * 3
    first = encode_message_set(records, magic=magic, codec=codec)
    second = bytearray(encode_message_set(records, magic=magic, codec=codec, base_offset=3))
    second[-1] ^= 1
    data = first + second
    bad = list(iter_entries(data))[-1]
    lists = decode_lists(data)
    assert isinstance(lists.error, CorruptMessage)
    assert (lists.error.position, lists.error.base_offset) == (bad.position, bad.base_offset)
    assert lists.count == lists.next_offset == (3 if magic == 2 or codec else 5)
    with pytest.raises(CorruptMessage) as caught:
        decode_columns(data)
    assert caught.value.position == bad.position


@pytest.mark.parametrize(("magic", "codec"), [f for f in FORMATS if f[1]])
def test_decompression_bomb_is_refused(magic, codec):
    data = encode_message_set([(None, bytes(3_000_000), -1, ())], magic=magic, codec=codec)
    assert len(data) < 300_000
    with pytest.raises(MessageSizeTooLarge):
        list(iter_records(data, max_decompressed_bytes=1_000_000))
    policy = AppendPolicy(max_decompressed_bytes=1_000_000)
    with pytest.raises(MessageSizeTooLarge):
        prepare_append(bytearray(data), 0, policy, 0)
    assert len(list(iter_records(data))) == 1


@settings(deadline=None, derandomize=True, max_examples=50)
@given(formats_and_records())
def test_builder_stays_within_size_bound(case):
    magic, _, records = case
    builder = MessageSetBuilder(magic)
    for key, value, timestamp, found in records:
        builder.append(key, value, timestamp, found)
    built = builder.build()
    assert len(built) <= builder.size_bytes
    assert builder.build() == built
    bound = sum(max_encoded_bytes(magic, r[0], r[1], r[3]) for r in records)
    assert len(built) <= bound + 61


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("append_time", [None, 77])
@pytest.mark.parametrize("outer", [0, 1])
def test_wrapper_of_mixed_magics_is_read(outer, append_time, codec):
    """As newer brokers and clients read what cleaners of 0.10.0 left (KAFKA-4298)."""
    rows = [(b"k%d" % number, b"v%d" % number, 1000 + number, ()) for number in range(4)]
    begin = 6 if outer == 0 else 0
    parts = [
        encode_message_set([row], magic=magic, base_offset=begin + number)
        for number, (magic, row) in enumerate(zip((0, 1, 1 - outer, outer), rows, strict=True))
    ]
    stamped = outer == 1 and append_time is not None
    data = wrap_message_set(b"".join(parts), outer, 9, append_time or 1003, stamped, codec)
    times = [
        ((append_time, 1) if stamped else (row[2], 0)) if magic else (-1, -1)
        for magic, row in zip((0, 1, 1 - outer, outer), rows, strict=True)
    ]
    wanted = [
        (offset, timestamp, kind, key, value, ())
        for offset, (timestamp, kind), (key, value, _, _) in zip(
            range(6, 10), times, rows, strict=True
        )
    ]
    assert list(iter_records(data)) == wanted
    assert list(portable.decode_records(data, 0, 0, 100, True, 1 << 20, 10)[0]) == wanted
    assert decode_lists(data).timestamps == [each[1] for each in wanted]
    assert decode_columns(data, start_offset=7).count == 3
    # Readers that know one magic only get that magic.
    if outer == 1:
        older = convert(data, 0)
        assert [r[0:1] + r[3:5] for r in iter_records(older)] == [w[0:1] + w[3:5] for w in wanted]
        assert {each.magic for each in iter_entries(older)} == {0}


def test_offset_after_needs_no_decoding():
    data = encode_message_set([(None, b"v", 1, ())] * 3, base_offset=7, codec=Codec.GZIP)
    nonsense = bytes(16) + b"\x09" + bytes(50)
    assert offset_after(b"") is None
    assert offset_after(data[:-1]) is None
    assert offset_after(data + nonsense) == 10
    with pytest.raises(CorruptMessage):
        offset_after(nonsense)
