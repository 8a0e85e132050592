import json
from pathlib import Path

import pytest

from zkbroker.protocol.java_hash import string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(2**31)),  # the well-known text whose hash is Integer.MIN_VALUE
        ("\U0001f600", 1772899),  # two UTF-16 units: 55357 * 31 + 56832
    ],
)
def test_string_hash_equals_java(text, expected):
    assert string_hash(text) == expected


def test_string_hash_equals_recorded_hashes():
    path = Path(__file__).parents[2] / "golden" / "data" / "partitioner.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 600
    for row in rows:
        assert string_hash(row["key"]) == row["string_hashcode"]
