"""Sets of 0.7 as record batches, and records as messages of 0.7."""

import itertools
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkbroker.records import AppendPolicy, iter_entries, iter_records, kernels, prepare_append
from zkbroker.records.codec import Codec
from zkbroker.records.generations import (
    AS_SENT,
    convert_set,
    dense,
    render,
)
from zkbroker.records.legacy07 import (
    Limits07,
    build_message,
    build_wrapper,
    check_plain_set,
    check_set,
    messages,
)

NOW = 1_700_000_000_000


def convert(data, **how):
    return convert_set(data, NOW, **{"max_batch_bytes": 10_000, "max_stretch_bytes": 500} | how)


PLAIN = st.builds(
    build_message,
    st.binary(max_size=50),
    magic=st.sampled_from([0, 1]),
) | st.builds(build_message, st.binary(max_size=20), attributes=st.sampled_from([0, 0x40]))
WRAPPED = st.builds(
    build_wrapper,
    st.sampled_from([Codec.GZIP, Codec.SNAPPY]),
    st.lists(PLAIN, max_size=4).map(b"".join),
)
SETS = st.lists(PLAIN | WRAPPED, max_size=8).map(b"".join)


@settings(deadline=None)
@given(SETS)
def test_set_is_converted_to_records_and_stretches(data):
    found = convert(data)
    payloads = [each.payload for each in messages(data, 0)]
    assert found.messages == len(payloads)
    if payloads:
        # A log's append checks all of it.
        prepared = prepare_append(found.batches, 7, AppendPolicy(), NOW)
        records = list(iter_records(bytes(prepared.data)))
        assert [each.value for each in records] == payloads
        assert [each.offset for each in records] == [*range(7, 7 + len(payloads))]
        assert {(each.key, each.timestamp) for each in records} == {(None, NOW)}
    shown = b"".join(each.data for each in found.stretches)
    assert [each.payload for each in messages(shown, 0)] == payloads
    assert shown == b"".join(each for each, messages_in in _entries(data) if messages_in)
    for each in found.stretches:
        inside = [message.payload for message in messages(each.data, 0)]
        assert len(inside) == each.messages
        if each.kind != AS_SENT:
            # The stretch can be rendered from its payloads.
            assert render(inside, each.kind) == each.data


def _entries(data):
    view, at = memoryview(data), 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        part = view[at : at + 4 + length]
        yield bytes(part), len(list(messages(part, 0)))
        at += 4 + length


def test_wrapper_keeps_codec_and_is_split_when_large():
    inner = b"".join(build_message(b"%d" % number * 40) for number in range(100))
    for codec in (Codec.GZIP, Codec.SNAPPY):
        data = build_wrapper(codec, inner)
        (entry,) = iter_entries(bytes(convert(data).batches))
        assert entry.codec == codec
        assert entry.record_count == 100
        parted = convert(data, max_batch_bytes=400)
        sizes = [each.size for each in iter_entries(bytes(parted.batches))]
        assert len(sizes) > 1
        assert max(sizes) <= 400
        assert [each.kind for each in parted.stretches] == [AS_SENT]


def test_plain_messages_are_split_into_batches_and_stretches():
    data = b"".join(build_message(bytes(90)) for _ in range(20))
    found = convert(data, max_batch_bytes=500)
    assert all(each.size <= 500 for each in iter_entries(bytes(found.batches)))
    assert len(list(iter_entries(bytes(found.batches)))) > 4
    assert [each.messages for each in found.stretches] == [5, 5, 5, 5]
    # A large message after small ones gets a batch of its own.
    payloads = [b"a", b"b", bytes(480), b"c"]
    found = convert(b"".join(map(build_message, payloads)), max_batch_bytes=550)
    assert [each.record_count for each in iter_entries(bytes(found.batches))] == [2, 1, 1]
    assert [each.value for each in iter_records(bytes(found.batches))] == payloads
    # The log checks a message that is larger than a batch may be.
    (entry,) = iter_entries(bytes(convert(build_message(bytes(900)), max_batch_bytes=500).batches))
    assert entry.size > 900


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)).map(sorted))
def test_dense_parts_cover_the_offsets(offsets):
    parts = [offsets[begin:end] for begin, end in dense(offsets)]
    assert [each for part in parts for each in part] == offsets
    for part in parts:
        assert part == [*range(part[0], part[0] + len(part))]
    for before, after in itertools.pairwise(parts):
        assert before[-1] + 1 < after[0]


@settings(deadline=None)
@given(SETS, st.integers(0, 2**31), st.integers(-1, 1), st.booleans(), st.integers(1, 300))
def test_plain_messages_end_at_first_other_entry(data, at, kind, collect, limit):
    """For valid and damaged sets."""
    damaged = bytearray(data)
    if damaged and at % 3 == 0:
        damaged[at % len(damaged)] ^= 1 + at % 255
    damaged = bytes(damaged[: len(damaged) - at % 5 if at % 7 == 0 else None])
    reached, count, payloads = kernels.plain_messages(damaged, 0, kind, 40, limit, collect)
    walked = 0
    expected = []
    while walked < limit:
        if len(damaged) - walked < 9:
            break
        length, magic = struct.unpack_from(">ib", damaged, walked)
        end = walked + 4 + length
        if magic not in (0, 1) or kind not in (-1, magic) or length < 5 + magic:
            break
        if end > len(damaged):
            break
        attributes = damaged[walked + 5] if magic else 0
        if attributes & 3 or (kind == 1 and attributes):
            break
        payload = damaged[walked + 9 + magic : end]
        (crc,) = struct.unpack_from(">I", damaged, walked + 5 + magic)
        if len(payload) > 40 or zlib.crc32(payload) != crc:
            break
        expected.append(payload)
        walked = end
    assert (reached, count) == (walked, len(expected))
    assert payloads == (expected if collect else None)


def test_position_outside_data_is_refused():
    for position in (-1, 4):
        with pytest.raises(ValueError):
            kernels.plain_messages(b"abc", position, -1, 10, 10, False)


@settings(deadline=None)
@given(SETS)
def test_plain_set_is_recognized(data):
    plain = check_plain_set(data, Limits07())
    checked = check_set(data, Limits07())
    if plain is None:
        assert any(
            struct.unpack_from(">b", each, 4)[0] and each[5] & 3 for each, _ in _entries(data)
        )
    else:
        assert plain == checked
