"""Partitioners, compared with results of the genuine Java classes for 600 keys."""

import json
from collections import Counter
from pathlib import Path

import pytest

from zkbroker.producer import (
    DefaultPartitioner,
    LegacyHashPartitioner,
    LegacyMaskPartitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from zkbroker.producer.partitioners import java_hash, murmur2

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "partitioner.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def test_golden_file_has_600_keys():
    assert len(ROWS) == 600


@pytest.mark.parametrize(
    ("column", "compute"),
    [
        ("murmur2", lambda key: murmur2(key.encode())),
        ("murmur2_mod_12", lambda key: DefaultPartitioner().partition(key.encode(), 12)),
        ("murmur2_mod_12", lambda key: DefaultPartitioner().partition(key, 12)),
        ("string_hashcode", java_hash),
        ("bytes_arrays_hashcode", lambda key: java_hash(key.encode())),
    ],
)
def test_hashes_and_partitions_of_golden_keys_equal_java(column, compute):
    for row in ROWS:
        assert compute(row["key"]) == row[column], row["key"]


def test_legacy_partitioner_uses_absolute_hash_of_golden_keys():
    # The column was computed by the code of 0.8.2, which takes the absolute value.
    partitioner = LegacyHashPartitioner()
    for row in ROWS:
        assert partitioner.partition(row["key"], 12) == row["hashcode_mod_12"], row["key"]
        h = row["string_hashcode"]
        assert row["hashcode_mod_12"] == (0 if h == -(2**31) else abs(h)) % 12


def test_legacy_mask_partitioner_masks_sign_as_0_8_0():
    partitioner = LegacyHashPartitioner(mask=True)
    named = LegacyMaskPartitioner()
    for row in ROWS:
        expected = (row["string_hashcode"] & 0x7FFFFFFF) % 12
        assert partitioner.partition(row["key"], 12) == expected, row["key"]
        assert named.partition(row["key"], 12) == expected


def test_smallest_hash_goes_to_partition_0():
    assert java_hash("polygenelubricants") == -(2**31)
    assert LegacyHashPartitioner().partition("polygenelubricants", 7) == 0


def test_java_hash_of_numbers_and_booleans():
    assert java_hash(5) == 5
    assert java_hash(-5) == -5
    assert java_hash(2**31 - 1) == 2**31 - 1
    # Long.hashCode: (int)(v ^ (v >>> 32))
    assert java_hash(2**31) == -(2**31)
    assert java_hash(2**40 + 3) == 2**8 + 3
    assert java_hash(-(2**40)) == -256
    assert java_hash(True) == 1231
    assert java_hash(False) == 1237
    assert java_hash(None) == 0


def test_java_hash_of_text_outside_the_basic_plane_uses_utf16_units():
    # "\U0001F600" is D83D DE00 in UTF-16: 0xD83D * 31 + 0xDE00.
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_java_hash_refuses_unsupported_type():
    with pytest.raises(TypeError, match="float"):
        java_hash(1.5)


def test_keyless_messages_spread_evenly_over_available_partitions():
    for partitioner in (DefaultPartitioner(), RoundRobinPartitioner()):
        dealt = Counter(partitioner.choose("t", [1, 3, 4]) for _ in range(300))
        assert dealt == {1: 100, 3: 100, 4: 100}


def test_default_partitioner_spreads_null_keys_over_all_partitions():
    partitioner = DefaultPartitioner()
    assert Counter(partitioner.partition(None, 4) for _ in range(40)) == dict.fromkeys(range(4), 10)


def test_sticky_partitioner_keeps_partition_until_refresh_or_loss():
    partitioner = StickyPartitioner()
    first = partitioner.choose("t", [0, 1, 2])
    assert {partitioner.choose("t", [0, 1, 2]) for _ in range(20)} == {first}
    rest = [p for p in (0, 1, 2) if p != first]
    moved = partitioner.choose("t", rest)
    assert moved in rest
    seen = set()
    for _ in range(100):
        partitioner.on_refresh("t")
        seen.add(partitioner.choose("t", [0, 1, 2]))
    assert seen == {0, 1, 2}


def test_random_partitioner_stays_in_range():
    partitioner = RandomPartitioner()
    assert {partitioner.partition(b"k", 3) for _ in range(200)} == {0, 1, 2}
    assert {partitioner.choose("t", [5, 9]) for _ in range(200)} == {5, 9}
