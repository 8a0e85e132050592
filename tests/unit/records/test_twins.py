"""The loops in Python and in C give the same results for valid and damaged bytes."""

import gc
import random
import sys
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import soak
from tests.support.record_strategies import formats_and_records
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge, ProtocolError
from zkbroker.records import (
    AppendPolicy,
    Codec,
    crc32,
    crc32c,
    encode_message_set,
    iter_entries,
    kernels,
    portable,
    prepare_append,
)
from zkbroker.records.entries import check_crc, read_head
from zkbroker.records.layout import BATCH_HEADER_BYTES
from zkbroker.records.legacy07 import build_message
from zkbroker.records.messages import wrap_message_set
from zkbroker.records.payload import unwrap

LIMIT = 1 << 20
END = 2**63 - 1


class Row(NamedTuple):
    """A row class of a reader."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


@pytest.fixture(scope="module", autouse=True)
def loops():
    """Replaces no loop: the tests call both twins by name."""


def comparable(result):
    """Errors compare by class and place, buffers by content."""
    if isinstance(result, (CorruptMessage, MessageSizeTooLarge)):
        place = getattr(result, "position", None), getattr(result, "base_offset", None)
        return type(result), place
    if isinstance(result, (bytearray, memoryview)):
        return bytes(result)
    if type(result) is tuple:
        return tuple(comparable(part) for part in result)
    return result


def outcome(function, *args):
    try:
        return comparable(function(*args))
    except (CorruptMessage, MessageSizeTooLarge) as error:
        return type(error)


def reseal(raw):
    """Correct every checksum, so that damage passes it."""
    raw = bytearray(raw)
    try:
        entries = list(iter_entries(bytes(raw)))
    except CorruptMessage:
        return bytes(raw)
    for entry in entries:
        end = entry.position + entry.size
        if entry.magic == 2:
            crc = crc32c(raw[entry.position + 21 : end])
            raw[entry.position + 17 : entry.position + 21] = crc.to_bytes(4, "big")
        else:
            crc = crc32(raw[entry.position + 16 : end])
            raw[entry.position + 12 : entry.position + 16] = crc.to_bytes(4, "big")
    return bytes(raw)


def damaged(raw, seed):
    dice = random.Random(seed)
    raw = bytearray(raw)
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(raw))
        kind = dice.randrange(5)
        if kind == 0:
            raw[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            raw[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            raw[at : at + 4] = dice.randbytes(4)
        elif kind == 3:
            del raw[at:]
        else:
            raw[at:at] = dice.randbytes(dice.randrange(1, 20))
        if not raw:
            return b""
    return reseal(raw) if dice.random() < 0.8 else bytes(raw)


def compare_heads(native, raw):
    position = 0
    while True:
        for verify in (False, True):
            head = native.entry_head(raw, position, verify)
            try:
                slow = read_head(raw, position)
                if verify:
                    check_crc(memoryview(raw), slow)
            except CorruptMessage:
                slow = None
            assert head == slow
            assert type(head) is type(slow)
        head = native.entry_head(raw, position, False)
        if head is None:
            return
        assert repr(head) == repr(read_head(raw, position))
        position += head.size


def compare_decoders(native, raw, start=0, end=END, verify=True):
    assert outcome(native.end_of_entries, raw) == outcome(portable.end_of_entries, raw)
    compare_heads(native, raw)
    for name, args in (
        ("decode_records", (0, start, end, verify, LIMIT, 3)),
        ("decode_rows", (start, end, verify, LIMIT, Row, "topic", 70_000)),
        ("decode_lists", (start, end, verify, LIMIT)),
        ("decode_columns", (start, end, verify, True, LIMIT)),
        ("decode_columns", (start, end, verify, False, LIMIT)),
    ):
        in_c = outcome(getattr(native, name), raw, *args)
        assert in_c == outcome(getattr(portable, name), raw, *args), name


def compare_appends(native, raw):
    for magic in (0, 1):
        for append_time in (None, 77):
            results = []
            for loops in (native, portable):
                buffer = memoryview(bytearray(raw))
                args = (0, magic, 500, 1000, -5, 2**62, append_time)
                results.append((outcome(loops.assign_messages, buffer, *args), bytes(buffer)))
            assert results[0] == results[1]
    for args in ((0, 10**6), (0, 60), (len(raw) // 2, 10**6)):
        found = outcome(native.end_of_plain, raw, *args)
        assert found == outcome(portable.end_of_plain, raw, *args)
    for entry in iter_entries(raw):
        if entry.magic == 2 and not entry.codec:
            payload = raw[BATCH_HEADER_BYTES + entry.position : entry.position + entry.size]
            span = entry.last_offset - entry.base_offset
            args = (payload, entry.record_count, span, entry.base_timestamp)
            assert outcome(native.scan_records, *args) == outcome(portable.scan_records, *args)


def compare_damaged(native, raw, seed, turns):
    for turn in range(turns):
        hurt = damaged(raw, seed + turn)
        compare_decoders(native, hurt, seed % 5)
        compare_decoders(native, hurt, verify=False)
        try:
            compare_appends(native, hurt)
        except CorruptMessage:
            continue  # the walk over the damaged entries ended there


def sets(cases):
    raw = b""
    offset = 0
    for magic, codec, records in cases:
        raw += encode_message_set(records, magic=magic, codec=codec, base_offset=offset)
        offset += len(records)
    return raw


def mixed(cases, outer):
    """Wrap the records under a magic which some of them do not have."""
    inner = b"".join(
        encode_message_set(records, magic=min(magic, 1), base_offset=10 * number)
        for number, (magic, _, records) in enumerate(cases)
    )
    return wrap_message_set(inner, outer, 500, 5, outer == 1, Codec.SNAPPY)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(formats_and_records())
def test_both_encode_the_same_bytes(native, case):
    magic, _, records = case
    base = records[0][2]
    assert comparable(native.encode_records(records, base)) == comparable(
        portable.encode_records(records, base)
    )
    for offsets in (None, [3 * index for index in range(len(records))]):
        for append_time in (None, 5):
            args = (records, min(magic, 1), 9, offsets, append_time)
            assert native.encode_messages(*args) == portable.encode_messages(*args)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(formats_and_records(max_size=4), min_size=1, max_size=4),
    st.integers(0, 12),
    st.one_of(st.just(END), st.integers(0, 12)),
    st.booleans(),
)
def test_both_decode_the_same_records(native, cases, start, end, verify):
    raw = sets(cases)
    compare_decoders(native, raw, start, end, verify)
    compare_appends(native, raw)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.lists(formats_and_records(max_size=3), min_size=1, max_size=4),
    st.sampled_from([0, 1]),
    st.integers(0, 2**32),
)
def test_both_decode_wrappers_of_another_magic(native, cases, outer, seed):
    whole = mixed(cases, outer)
    compare_decoders(native, whole)
    assert native.decode_records(whole, 0, -END, END, True, LIMIT, 1000)[3] is None
    # Damage from before the compression: both must check the bytes inside.
    (entry,) = iter_entries(whole)
    inner = bytearray(unwrap(whole, entry, LIMIT))
    dice = random.Random(seed)
    for _ in range(10):
        hurt = bytearray(inner)
        hurt[dice.randrange(len(hurt))] ^= 1 << dice.randrange(8)
        del hurt[dice.randrange(1, len(hurt) + 40) :]
        compare_decoders(native, wrap_message_set(reseal(hurt), outer, 500, 5, False, Codec.GZIP))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec.first_magic == 2])
def test_both_refuse_codec_unknown_to_magic(native, codec, magic):
    inner = encode_message_set([(None, b"v", 0, ())], magic=magic)
    whole = wrap_message_set(inner, magic, 0, 5, False, codec)
    compare_decoders(native, whole)
    assert native.decode_records(whole, 0, -END, END, True, LIMIT, 1000)[3] is not None


@pytest.mark.parametrize("base", [2**62, -(2**62), 2**62 - 1, -(2**62) + 1])
def test_both_keep_timestamps_of_batches_within_int64(native, base):
    records = bytes(portable.encode_records([(None, b"v", 2 * base, ())], base)[0])
    args = (records[BATCH_HEADER_BYTES:], 1, 0, base)
    fits = (2 * base, 2 * base, 0, True) if abs(base) < 2**62 else CorruptMessage
    assert outcome(portable.scan_records, *args) == fits
    assert outcome(native.scan_records, *args) == fits


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(formats_and_records(max_size=4), min_size=1, max_size=3), st.integers(0, 2**32))
def test_both_refuse_the_same_damage(native, cases, seed):
    compare_damaged(native, sets(cases), seed, turns=20)


@pytest.mark.soak
@settings(deadline=None, derandomize=True, max_examples=soak.part_of(3000))
@given(st.lists(formats_and_records(max_size=4), min_size=1, max_size=3), st.integers(0, 2**32))
def test_both_refuse_the_same_damage_at_length(native, cases, seed):
    compare_damaged(native, sets(cases), seed, turns=60)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.binary(max_size=300), st.integers(0, 5000))
def test_checksums_equal_those_of_libraries(native, data, extra):
    for sample in (data, data + bytes(extra), (data + b"xyz") * 40):
        assert native.crc32(sample) == crc32(sample)
        assert native.crc32c(sample) == crc32c(sample)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 70) | st.integers(8180, 8200), st.booleans()), max_size=8),
    st.integers(0, 2**20),
    st.integers(0, 2**31),
)
def test_both_make_same_records_of_plain_messages(native, messages, delta, damage):
    values = [bytes([size % 256]) * size for size, _ in messages]
    data = b"".join(
        build_message(value, magic=int(magic))
        for value, (_, magic) in zip(values, messages, strict=True)
    )
    if values:
        records = [(None, value, 5, ()) for value in values]
        encoded = bytes(portable.encode_records(records, 5)[0][BATCH_HEADER_BYTES:])
        assert native.plain_records(data, 0, len(data), 0) == encoded
    damaged = bytearray(data)
    if damaged:
        damaged[damage % len(damaged)] ^= damage % 255
    for args in (
        (data, 0, len(data), delta),
        (b"before" + data, 6, 6 + len(data), delta),
        (bytes(damaged), 0, len(damaged), delta),
        (data, 0, damage % (len(data) + 2), delta),
        (data, -1, len(data), delta),
        (data, 1, 0, delta),
    ):
        found = []
        for loops in (native, portable):
            try:
                found.append(loops.plain_records(*args))
            except ValueError as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_foreign_buffers_are_encoded_like_bytes(native):
    plain = [(b"key", b"value", 5, (("h", b"x"),))]
    foreign = [(bytearray(b"key"), memoryview(b"value"), 5, [("h", bytearray(b"x"))])]
    for loops in (native, portable):
        assert loops.encode_records(foreign, 5) == portable.encode_records(plain, 5)
        assert loops.encode_messages(foreign, 1, 0, None, None) == portable.encode_messages(
            plain, 1, 0, None, None
        )


@pytest.mark.parametrize(
    "records",
    [[1], [(1, 2)], [("text", b"", 1, ())], [(b"", b"", "1", ())], [(b"", b"", 1, ((1, b""),))]],
)
def test_invalid_record_raises_type_error(native, records):
    with pytest.raises((TypeError, ValueError)):
        native.encode_records(records, 0)


def test_header_keys_that_are_not_utf_8_round_trip(native):
    records = [(b"k", b"v", 1, (("\udcff\udc80", None),))]
    data = encode_message_set(records)
    for loops in (native, portable):
        assert bytes(loops.encode_records(records, 1)[0][61:]) == data[61:]
        (record,) = loops.decode_records(data, 0, 0, END, True, LIMIT, 9)[0]
        assert record.headers == records[0][3]


def appended(loops, monkeypatch, raw, policy):
    for name in portable.__all__:
        monkeypatch.setattr(kernels, name, getattr(loops, name))
    try:
        prepared = prepare_append(bytearray(raw), 700, policy, 1_500_000_000_500)
    except ProtocolError as error:
        return error.code
    return bytes(prepared.data), [getattr(prepared, name) for name in prepared.__slots__[1:]]


POLICIES = st.builds(
    AppendPolicy,
    max_message_bytes=st.sampled_from([200, 1_000_000]),
    timestamp_type=st.sampled_from([0, 1]),
    max_timestamp_difference_ms=st.sampled_from([400, 2**63 - 1]),
    message_format=st.sampled_from([None, 0, 1, 2]),
    codec=st.sampled_from([None, Codec.NONE, Codec.GZIP]),
    allow_control=st.booleans(),
)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(formats_and_records(max_size=4), min_size=1, max_size=3),
    POLICIES,
    st.integers(0, 2**32),
)
def test_both_append_the_same_or_refuse_alike(native, cases, policy, seed):
    raw = sets(cases)
    with pytest.MonkeyPatch.context() as patch:
        for turn in range(8):
            sent = damaged(raw, seed + turn) if turn else raw
            assert appended(native, patch, sent, policy) == appended(portable, patch, sent, policy)


def test_rows_have_the_requested_class(native):
    raw = sets([(2, 0, [(b"k", b"v", 7, ())])])
    for loops in (native, portable):
        ((row,), reached, error) = loops.decode_rows(raw, 0, END, True, LIMIT, Row, "topic", 3)
        assert type(row) is Row
        assert row == Row("topic", 3, 0, b"k", b"v", 7, 0, ())
        assert (reached, error) == (1, None)
        for wrong in (list, int, object):
            with pytest.raises(TypeError):
                loops.decode_rows(raw, 0, END, True, LIMIT, wrong, "topic", 3)


def test_c_twin_leaks_no_memory(native):
    good = sets([(magic, 0, [(b"k", b"v", -1, ())] * 3) for magic in (0, 1, 2)])
    headers = encode_message_set([(b"k", None, 1, (("h", None), ("i", b"x")))] * 2)
    bad = bytearray(good + headers)
    bad[-3] ^= 1
    packed = bytearray(encode_message_set([(b"k", b"v", 1, ())], codec=1))
    packed[-5] ^= 1
    samples = [good, headers, bytes(bad), reseal(packed), good[:-1], headers[:70]]

    def everything():
        for raw in samples:
            native.end_of_entries(raw)
            for position in (0, 5, 34, -1, 10_000):
                native.entry_head(raw, position, True)
            native.end_of_entries(b"\0" * 40)
            for start, end, verify in ((0, END, True), (1, 4, False)):
                native.decode_records(raw, 0, start, end, verify, LIMIT, 9)
                native.decode_rows(raw, start, end, verify, LIMIT, Row, "topic", 70_000)
                native.decode_lists(raw, start, end, verify, LIMIT)
                native.decode_columns(raw, start, end, verify, True, LIMIT)
            native.assign_messages(bytearray(raw), 0, 0, 1, 999, 0, 9, None)
            native.place_batch(bytearray(raw), 0, 1, 999, 0, 9, 0)
            native.place_batch(bytearray(headers), 0, 1, 999, 0, 9, 0)
        native.encode_records([(b"k", bytearray(b"v"), 1, (("h", None),))], 1)
        native.encode_messages([(b"k", None, 1, ())], 1, 0, [5], 7)
        for wrong in ([(b"k", b"v", 1, (("h", 1),))], [(b"k", "v", 1, ())], [1], []):
            with pytest.raises((TypeError, ValueError)):
                native.encode_records(wrong, 1)
        with pytest.raises(CorruptMessage):
            native.scan_records(b"abc", 1, 0, 0)

    for _ in range(20):
        everything()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        everything()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100
