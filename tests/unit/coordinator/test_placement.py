import json
from pathlib import Path

import pytest

from zkbroker.coordinator.placement import group_partition, java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("golden-group", None),
        ("polygenelubricants", -(2**31)),  # the well-known text whose hash is Integer.MIN_VALUE
        ("\U0001f600", 1772899),  # two UTF-16 units: 55357 * 31 + 56832
    ],
)
def test_hashes_as_java_does(text, expected):
    if expected is not None:
        assert java_hash(text) == expected
    assert -(2**31) <= java_hash(text) < 2**31


def test_the_smallest_hash_maps_to_partition_0_as_in_genuine_brokers():
    assert group_partition("polygenelubricants", 50) == 0


@pytest.mark.parametrize("group", ["wire-group", "g", "ünïcode", "a" * 200])
def test_every_group_has_a_partition(group):
    assert 0 <= group_partition(group, 50) < 50


def test_hashes_every_recorded_key_as_the_genuine_class_did():
    path = Path(__file__).parents[2] / "golden" / "data" / "partitioner.jsonl"
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        assert java_hash(entry["key"]) == entry["string_hashcode"]
