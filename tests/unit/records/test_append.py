import random
import struct

import pytest

from tests.support.record_strategies import FORMATS
from zkbroker.errors import CorruptMessage, ErrorCode, MessageSizeTooLarge, ProtocolError
from zkbroker.records import (
    AppendPolicy,
    Codec,
    MessageSetBuilder,
    check_produce,
    compress,
    convert,
    encode_message_set,
    iter_entries,
    iter_records,
    prepare_append,
)
from zkbroker.records.batch import build_batch
from zkbroker.records.entries import seal_batch
from zkbroker.records.payload import unwrap
from zkbroker.records.portable.messages import encode_message


def make(magic, codec, count=5):
    builder = MessageSetBuilder(magic, codec)
    for index in range(count):
        builder.append(b"k%d" % index, b"v" * index, 1000 + index)
    return builder.build()


def renumbered(data, magic, codec, offset):
    """Return the set with one offset in every entry, also inside a wrapper."""
    if magic < 2 and codec:
        (wrapper,) = iter_entries(data)
        inner = renumbered(unwrap(data, wrapper), magic, Codec.NONE, offset)
        payload = compress(codec, inner, magic=magic)
        return encode_message(magic, offset, None, payload, wrapper.max_timestamp, codec)
    changed = bytearray(data)
    for entry in iter_entries(data):
        struct.pack_into(">q", changed, entry.position, offset)
    return bytes(changed)


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 5])
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_offsets_of_producer_are_ignored(magic, codec, offset):
    data = make(magic, codec)
    check_produce(renumbered(data, magic, codec, offset), 7 if magic == 2 else 2)
    if magic == 2:
        data = make(magic, codec, 2) + make(magic, codec, 3)
    sent = renumbered(data, magic, codec, offset)
    for pinned in (None, 0, 1, 2):
        if pinned is not None and pinned < codec.first_magic:
            continue
        policy = AppendPolicy(message_format=pinned)
        expected = prepare_append(bytearray(data), 700, policy, 0)
        prepared = prepare_append(bytearray(sent), 700, policy, 0)
        records = list(iter_records(prepared.data))
        assert records == list(iter_records(expected.data))
        assert [record.offset for record in records] == list(range(700, 705))
        assert (prepared.first_offset, prepared.last_offset) == (700, 704)
        assert list(iter_entries(prepared.data, verify_crc=True))[-1].last_offset == 704


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_flipped_bit_is_refused_or_harmless(magic, codec):
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


def refused(data, code, **policy):
    with pytest.raises(ProtocolError) as caught:
        prepare_append(bytearray(data), 0, AppendPolicy(**policy), 10_000)
    assert caught.value.code == code


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_entry_above_size_limit_is_refused(magic, codec):
    data = make(magic, codec)
    largest = max(entry.size for entry in iter_entries(data))
    prepare_append(bytearray(data), 0, AppendPolicy(max_message_bytes=largest), 0)
    refused(data, ErrorCode.MESSAGE_TOO_LARGE, max_message_bytes=largest - 1)


@pytest.mark.parametrize(("magic", "codec"), [c for c in FORMATS if c[0]])
def test_timestamp_far_from_clock_is_refused(magic, codec):
    data = make(magic, codec)  # 1000 to 1004; the clock is at 10000
    refused(data, ErrorCode.INVALID_TIMESTAMP, max_timestamp_difference_ms=8_999)
    policy = AppendPolicy(max_timestamp_difference_ms=9_000)
    assert prepare_append(bytearray(data), 0, policy, 10_000).count == 5
    policy = AppendPolicy(max_timestamp_difference_ms=1, timestamp_type=1)
    assert prepare_append(bytearray(data), 0, policy, 10_000).count == 5


@pytest.mark.parametrize(("magic", "codec"), [c for c in FORMATS if c[0]])
def test_log_append_time_is_stored_with_valid_crc(magic, codec):
    policy = AppendPolicy(timestamp_type=1)
    prepared = prepare_append(bytearray(make(magic, codec)), 7, policy, 4242)
    assert {entry.timestamp_type for entry in iter_entries(prepared.data, verify_crc=True)} == {1}
    records = list(iter_records(prepared.data))
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(4242, 1)}
    assert prepared.max_timestamp == 4242
    if codec.first_magic < 2:
        again = convert(prepared.data, 1)
        assert [(r.timestamp, r.timestamp_type) for r in iter_records(again)] == [(4242, 1)] * 5
    refused(prepared.data, ErrorCode.INVALID_TIMESTAMP)


@pytest.mark.parametrize("pinned", [0, 1])
@pytest.mark.parametrize("kind", [{"producer_id": 5, "base_sequence": 0}, {"is_transactional": 1}])
def test_older_format_refuses_idempotent_and_transactional_batches(pinned, kind):
    data = encode_message_set([(None, b"v", 1, ())], **kind)
    refused(data, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, message_format=pinned)
    stored = prepare_append(bytearray(data), 3, AppendPolicy(), 0, leader_epoch=9)
    (batch,) = stored.batches
    assert batch.producer_id == kind.get("producer_id", -1)
    assert batch.base_sequence == kind.get("base_sequence", -1)
    assert (batch.base_offset, batch.partition_leader_epoch) == (3, 9)


def test_producer_id_without_sequence_is_refused():
    refused(encode_message_set([(None, b"v", 1, ())], producer_id=5), ErrorCode.CORRUPT_MESSAGE)


def test_only_coordinator_may_append_control_batch():
    marker = build_batch(
        [(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", 1, ())],
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    refused(marker, ErrorCode.CORRUPT_MESSAGE)
    stored = prepare_append(bytearray(marker), 3, AppendPolicy(allow_control=True), 0)
    assert stored.batches[0].is_control
    assert list(iter_records(stored.data)) == []


def reseal(batch):
    seal_batch(batch)
    return bytes(batch)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(("at", "value"), [(23, 5), (23, 3), (57, 4), (57, 6), (57, 0), (57, -1)])
def test_wrong_record_count_is_refused(codec, at, value):
    batch = bytearray(make(2, codec))
    batch[at : at + 4] = value.to_bytes(4, "big", signed=True)
    refused(reseal(batch), ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("codec", list(Codec))
def test_consistently_wrong_counts_are_refused(codec):
    batch = bytearray(make(2, codec))
    batch[23:27] = (5).to_bytes(4, "big")
    batch[57:61] = (6).to_bytes(4, "big")
    refused(reseal(batch), ErrorCode.CORRUPT_MESSAGE)


def test_wrong_maximum_timestamp_is_corrected():
    batch = bytearray(make(2, Codec.NONE))
    batch[35:43] = (99).to_bytes(8, "big")
    prepared = prepare_append(bytearray(reseal(batch)), 0, AppendPolicy(), 0)
    (entry,) = iter_entries(prepared.data, verify_crc=True)
    assert (
        entry.max_timestamp == prepared.max_timestamp == prepared.batches[0].max_timestamp == 1004
    )
    assert prepared.batches[0].crc == entry.crc


@pytest.mark.parametrize("inner_codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(("outer", "inner"), [(0, 0), (1, 1), (0, 1), (1, 0)])
def test_nested_or_mixed_wrappers_are_refused(outer, inner, inner_codec):
    nested = make(inner, inner_codec)
    payload = compress(Codec.SNAPPY, nested)
    data = encode_message(outer, 4, None, payload, 1004 if outer else -1, Codec.SNAPPY)
    if outer == inner and inner_codec == Codec.NONE:
        assert prepare_append(bytearray(data), 0, AppendPolicy(), 0).count == 5
    else:
        refused(data, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("magic", [0, 1])
def test_inner_message_with_wrong_crc_is_refused(magic):
    inner = bytearray(make(magic, Codec.NONE))
    inner[-1] ^= 1
    payload = compress(Codec.GZIP, bytes(inner))
    data = encode_message(magic, 4, None, payload, -1, Codec.GZIP)
    refused(data, ErrorCode.CORRUPT_MESSAGE)


def test_wrapper_with_correct_relative_offsets_is_unchanged():
    data = make(1, Codec.GZIP)
    prepared = prepare_append(bytearray(data), 0, AppendPolicy(), 0)
    assert bytes(prepared.data) == data
    prepared = prepare_append(bytearray(data), 1000, AppendPolicy(), 0)
    assert bytes(prepared.data) == (1004).to_bytes(8, "big") + data[8:]


def test_wrapper_with_wrong_relative_offsets_is_rewritten():
    inner = b"".join(encode_message(1, 0, None, b"v%d" % i, 1000 + i) for i in range(3))
    data = encode_message(1, 0, None, compress(Codec.GZIP, inner), 7, Codec.GZIP)
    prepared = prepare_append(bytearray(data), 50, AppendPolicy(), 0)
    found = [(r.offset, r.value) for r in iter_records(prepared.data)]
    assert found == [(50, b"v0"), (51, b"v1"), (52, b"v2")]
    (entry,) = iter_entries(prepared.data, verify_crc=True)
    assert (entry.last_offset, entry.max_timestamp) == (52, 1002)


def test_compressed_magic_0_set_gets_absolute_inner_offsets():
    prepared = prepare_append(bytearray(make(0, Codec.LZ4)), 50, AppendPolicy(), 0)
    (entry,) = iter_entries(prepared.data, verify_crc=True)
    inner = unwrap(bytes(prepared.data), entry)
    assert [head.base_offset for head in iter_entries(inner)] == [50, 51, 52, 53, 54]


def test_set_ending_within_entry_is_refused():
    data = make(0, Codec.NONE)
    refused(data[:-1], ErrorCode.CORRUPT_MESSAGE)
    refused(data + b"\x00", ErrorCode.CORRUPT_MESSAGE)


def test_empty_set_is_accepted():
    prepared = prepare_append(b"", 12, AppendPolicy(), 0)
    assert (prepared.count, prepared.first_offset, prepared.last_offset) == (0, 12, 11)


def test_only_writable_bytes_are_changed_in_place():
    data = make(2, Codec.NONE)
    buffer = bytearray(data)
    prepared = prepare_append(memoryview(buffer), 9, AppendPolicy(), 0)
    assert bytes(prepared.data) == bytes(buffer) != data
    prepared = prepare_append(data, 9, AppendPolicy(), 0)
    assert bytes(prepared.data) == bytes(buffer)


def test_batches_of_mixed_set_have_their_positions():
    parts = [make(2, Codec.NONE), make(0, Codec.GZIP), make(1, Codec.NONE), make(2, Codec.ZSTD)]
    prepared = prepare_append(bytearray(b"".join(parts)), 100, AppendPolicy(), 0)
    found = [e for e in iter_entries(prepared.data, verify_crc=True) if e.magic == 2]
    assert prepared.batches == found
    assert prepared.max_magic == 2
    assert [r.offset for r in iter_records(prepared.data)] == list(range(100, 120))


def test_zstd_is_refused_by_older_format():
    refused(make(2, Codec.ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message_format=1)


@pytest.mark.parametrize(("timestamps", "at"), [([5, 9, 9, 1], 1), ([1, 2, 3, 4], 3)])
def test_time_index_gets_first_record_of_largest_timestamp(timestamps, at):
    records = [(None, b"v", timestamp, ()) for timestamp in timestamps]
    for magic in (1, 2):
        data = encode_message_set(records, magic=magic)
        prepared = prepare_append(bytearray(data), 20, AppendPolicy(), 0)
        assert prepared.offset_of_max_timestamp == 20 + at
        data = encode_message_set(records, magic=magic, codec=Codec.GZIP)
        prepared = prepare_append(bytearray(data), 20, AppendPolicy(), 0)
        assert prepared.offset_of_max_timestamp == 23


def test_upconverted_messages_keep_their_order():
    data = make(1, Codec.NONE, 2) + make(2, Codec.NONE, 3) + make(0, Codec.NONE, 2)
    prepared = prepare_append(bytearray(data), 10, AppendPolicy(message_format=2), 0)
    records = list(iter_records(prepared.data))
    assert [r.offset for r in records] == list(range(10, 17))
    assert [r.key for r in records] == [b"k0", b"k1", b"k0", b"k1", b"k2", b"k0", b"k1"]
    assert [b.base_offset for b in prepared.batches] == [10, 12, 15]


def test_gzip_set_grown_by_recompression_is_accepted():
    # Compressed by zlib at level 9 and just within the limit.
    words = random.Random(5).choices([b"alpha", b"beta", b"gamma", b"delta"], k=20_000)
    inner = b"".join(encode_message(0, 0, None, b" ".join(words[i::50])) for i in range(50))
    data = encode_message(0, 0, None, compress(Codec.GZIP, inner, level=9), -1, Codec.GZIP)
    assert len(compress(Codec.GZIP, inner)) > len(compress(Codec.GZIP, inner, level=9))
    policy = AppendPolicy(max_message_bytes=len(data) + 400)  # absolute offsets need some bytes
    assert prepare_append(bytearray(data), 0, policy, 0).count == 50


def test_wrapper_of_messages_with_log_append_time_is_rewritten():
    inner = b"".join(encode_message(1, i, None, b"v", 1000 + i, 8) for i in range(3))
    data = encode_message(1, 2, None, compress(Codec.GZIP, inner), 1002, Codec.GZIP)
    prepared = prepare_append(bytearray(data), 5, AppendPolicy(), 0)
    found = [(r.offset, r.timestamp, r.timestamp_type) for r in iter_records(prepared.data)]
    assert found == [(5, 1000, 0), (6, 1001, 0), (7, 1002, 0)]
