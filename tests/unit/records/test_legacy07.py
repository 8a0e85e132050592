"""Messages of Kafka 0.7: layout, next offsets, and checks of a sent set."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records.codec import Codec, compress
from zkbroker.records.legacy07 import (
    MAX_NESTING,
    Limits07,
    build_message,
    build_wrapper,
    check_set,
    entries,
    messages,
    read_entry,
    whole_bytes,
)

LIMITS = Limits07(max_payload_bytes=1000, max_decompressed_bytes=100_000, max_messages=50)
MESSAGES = st.builds(build_message, st.binary(max_size=60), magic=st.sampled_from([0, 1]))


def test_message_layouts_byte_for_byte():
    crc = zlib.crc32(b"hello")
    assert build_message(b"hello") == struct.pack(">ibbI", 11, 1, 0, crc) + b"hello"
    assert build_message(b"hello", magic=0) == struct.pack(">ibI", 10, 0, crc) + b"hello"
    with pytest.raises(ValueError):
        build_message(b"", magic=2)


@given(st.lists(MESSAGES, max_size=8), st.integers(0, 2**40))
def test_next_offset_is_end_of_plain_message(sets, offset):
    data = b"".join(sets)
    ends, at = [], offset
    for each in sets:
        at += len(each)
        ends.append(at)
    found = list(messages(data, offset))
    assert [message.next_offset for message in found] == ends
    assert b"".join(build_message(m.payload, magic=m.magic) for m in found) == data
    assert whole_bytes(data) == len(data)
    assert check_set(data, LIMITS) == (len(data), len(sets))


@given(
    st.lists(MESSAGES, min_size=1, max_size=5),
    st.sampled_from([Codec.GZIP, Codec.SNAPPY]),
    st.integers(0, 3),
)
def test_next_offsets_inside_wrapper(inner, codec, depth):
    wrapper = build_wrapper(codec, b"".join(inner))
    for _ in range(depth):
        wrapper = build_wrapper(codec, wrapper)
    data = build_message(b"before") + wrapper
    found = list(messages(data, 100))
    start = 100 + len(build_message(b"before"))
    assert [m.next_offset for m in found] == [start] * len(inner) + [100 + len(data)]
    assert check_set(data, LIMITS) == (len(data), 1 + len(inner))


@given(st.lists(MESSAGES, min_size=1, max_size=5), st.data())
def test_truncated_set_gives_complete_messages(sets, data):
    whole = b"".join(sets)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [0]
    for each in sets:
        ends.append(ends[-1] + len(each))
    expected = max(end for end in ends if end <= cut)
    assert whole_bytes(whole[:cut]) == expected
    if cut < len(sets[0]) and cut >= 4:
        with pytest.raises(CorruptMessage, match="first message"):
            check_set(whole[:cut], LIMITS)
    else:
        assert check_set(whole[:cut], LIMITS).size == expected


GOOD = build_message(b"good")
FLIPPED = build_message(b"bad")[:-1] + b"?"


@pytest.mark.parametrize(
    "bad",
    [
        FLIPPED,
        build_wrapper(Codec.GZIP, FLIPPED),
        build_message(b"not gzip", attributes=1),
        build_message(b"x", attributes=3),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", -5) + b"abcde",
        struct.pack(">ib", 5, 1) + b"abcd",
        struct.pack(">ibbI", 6, 2, 0, 0),
        build_wrapper(Codec.GZIP, GOOD[:-1]),
    ],
    ids=[
        "crc",
        "inner crc",
        "no gzip",
        "codec 3",
        "length 0",
        "length 3",
        "negative",
        "magic 1 of 5",
        "magic 2",
        "inner incomplete",
    ],
)
def test_bad_message_refuses_whole_set(bad):
    with pytest.raises(CorruptMessage):
        check_set(GOOD + bad, LIMITS)
    with pytest.raises(CorruptMessage):
        check_set(bad + GOOD, LIMITS)


def test_higher_attribute_bits_are_ignored():
    data = build_message(b"x", attributes=0b1100)
    assert check_set(data, LIMITS) == (len(data), 1)


def test_size_limit_applies_to_payload_of_entry():
    largest = build_message(bytes(1000))
    assert check_set(largest, LIMITS).messages == 1
    with pytest.raises(MessageSizeTooLarge, match=r"max\.message\.size is 1000"):
        check_set(GOOD + build_message(bytes(1001)), LIMITS)
    assert check_set(build_wrapper(Codec.GZIP, build_message(bytes(5000))), LIMITS).messages == 1
    # The size is checked first, as in the genuine broker.
    with pytest.raises(MessageSizeTooLarge):
        check_set(FLIPPED + build_message(bytes(1001)), LIMITS)


def test_cost_of_wrappers_is_bounded():
    bomb = build_wrapper(Codec.GZIP, build_message(bytes(200_000)))
    assert len(bomb) < 1000
    with pytest.raises(CorruptMessage, match=r"request\.max\.decompressed\.bytes"):
        check_set(bomb, LIMITS)
    half = build_wrapper(Codec.GZIP, build_message(bytes(60_000)))
    with pytest.raises(CorruptMessage, match="decompressed"):
        check_set(half + half, LIMITS)
    many = build_wrapper(Codec.GZIP, build_message(b"") * 51)
    with pytest.raises(CorruptMessage, match=r"compressed\.records"):
        check_set(many, LIMITS)
    deep = GOOD
    for _ in range(MAX_NESTING):
        deep = build_message(compress(Codec.GZIP, deep), attributes=1)
    assert check_set(deep, LIMITS).messages == 1
    with pytest.raises(CorruptMessage, match="more than 8 wrappers"):
        check_set(build_wrapper(Codec.GZIP, deep), LIMITS)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data):
    try:
        end = check_set(data, LIMITS).size
    except (CorruptMessage, MessageSizeTooLarge):
        return
    assert end <= len(data)
    list(entries(data[:end]))


def test_entry_fields_are_decoded():
    entry = read_entry(b"xx" + build_message(b"abc", attributes=0), 2)
    assert (entry.position, entry.size, entry.magic, bytes(entry.payload)) == (2, 13, 1, b"abc")
    assert entry.valid
    assert read_entry(GOOD[:-1], 0) is None
