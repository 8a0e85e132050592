"""Chunks cut into stored batches and decoded records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.errors import CorruptMessage
from zkbroker.mirror.repack import Decoded, StoredEntries, cut
from zkbroker.records import Codec, control_batch, decode_lists, encode_message_set
from zkbroker.records.batch import build_batch

STAMP = 1_700_000_000_000


def records(count: int, size: int = 10) -> list:
    return [(b"k%d" % n, b"v" * size + b"%d" % n, STAMP + n, ()) for n in range(count)]


def log(*sets: tuple[int, Codec, int]) -> bytes:
    """Entries of (magic, codec, count) one after the other, with offsets as a log gives them."""
    data, offset = b"", 0
    for magic, codec, count in sets:
        data += encode_message_set(records(count), magic=magic, codec=codec, base_offset=offset)
        offset += count
    return data


def shapes(data: bytes, start: int = 0, **options) -> list:
    given = {"magic": 2, "join_bytes": 0, "max_bytes": 100_000, **options}
    return [
        ("stored", each.magic, each.count)
        if isinstance(each, StoredEntries)
        else ("decoded", len(each.records), each.codec)
        for each in cut(data, start, **given)
    ]


def contents(data: bytes, start: int = 0, **options) -> list:
    """Return the keys and values of all pieces in order."""
    given = {"magic": 2, "join_bytes": 0, "max_bytes": 100_000, **options}
    found = []
    for piece in cut(data, start, **given):
        if isinstance(piece, Decoded):
            found += [record[:2] for record in piece.records]
        else:
            lists = decode_lists(piece.data)
            assert lists.error is None
            found += list(zip(lists.keys, lists.values, strict=True))
    return found


def test_batches_of_target_format_pass_unchanged():
    data = log((2, Codec.LZ4, 3), (2, Codec.NONE, 4))
    assert shapes(data) == [("stored", 2, 3), ("stored", 2, 4)]


def test_batch_beginning_before_requested_offset_is_decoded():
    data = log((2, Codec.GZIP, 5), (2, Codec.GZIP, 4))
    assert shapes(data, 2) == [("decoded", 3, Codec.GZIP), ("stored", 2, 4)]


def test_consecutive_small_batches_are_joined_by_codec():
    data = log(*[(2, Codec.NONE, 1)] * 5, (2, Codec.GZIP, 1), (2, Codec.GZIP, 1))
    assert shapes(data, join_bytes=10_000) == [
        ("decoded", 5, Codec.NONE),
        ("decoded", 2, Codec.GZIP),
    ]
    assert shapes(log((2, Codec.NONE, 1)), join_bytes=10_000) == [("stored", 2, 1)]


def test_old_entries_pass_together_to_old_target():
    data = log((1, Codec.NONE, 6), (1, Codec.SNAPPY, 3))
    assert shapes(data, magic=1) == [("stored", 1, 9)]
    assert shapes(data, magic=2) == [("decoded", 6, Codec.NONE), ("decoded", 3, Codec.SNAPPY)]
    assert shapes(data, 3, magic=1) == [("stored", 1, 6)]


def test_wrapper_passes_only_in_aligned_chunk():
    data = log((0, Codec.GZIP, 6), (0, Codec.GZIP, 2))
    assert shapes(data, 4, magic=0) == [("decoded", 2, Codec.GZIP), ("stored", 0, 1)]
    assert shapes(data, 0, magic=0, aligned=True)[0][0] == "stored"


def test_batches_with_append_time_holes_or_control_records_do_not_pass():
    appended = build_batch(records(3), timestamp_type=1, append_time=STAMP + 99)
    (piece,) = cut(appended, 0, magic=2, join_bytes=0, max_bytes=1000)
    assert [record[2] for record in piece.records] == [STAMP + 99] * 3
    assert shapes(control_batch(1, producer_id=1, producer_epoch=0, timestamp_ms=0)) == []


def test_records_are_split_into_bounded_batches():
    found = shapes(log((1, Codec.NONE, 100)), max_bytes=1000)
    assert sum(count for _, count, _ in found) == 100
    assert len(found) > 4


def test_corrupt_batch_is_not_forwarded():
    data = bytearray(log((2, Codec.NONE, 3), (2, Codec.NONE, 3)))
    data[-1] ^= 1
    found = []
    with pytest.raises(CorruptMessage):
        found.extend(cut(bytes(data), 0, magic=2, join_bytes=0, max_bytes=1000))


entries = st.tuples(
    st.sampled_from([0, 1, 2]),
    st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    st.integers(1, 6),
)


@given(
    st.lists(entries, max_size=8),
    st.integers(0, 12),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 100, 100_000]),
    st.integers(100, 2000),
    st.integers(0, 40),
    st.booleans(),
)
def test_each_record_from_offset_is_yielded_once_in_order(
    sets, start, magic, join_bytes, max_bytes, missing, decode
):
    data = log(*sets)
    data = data[: len(data) - missing] if missing < len(data) else data
    lists = decode_lists(data, start_offset=start)
    expected = list(zip(lists.keys, lists.values, strict=True))
    options = {"join_bytes": join_bytes, "max_bytes": max_bytes, "decode": decode}
    assert contents(data, start, magic=magic, **options) == expected
