"""Keys and values of a mirror, among foreign messages."""

import pytest

from zkbroker.mirror.state_keys import parse_key, parse_offset


def test_key_of_source_has_partition():
    key = b'{"source": "east", "topic": "t", "partition": 3}'
    assert parse_key(key, "east") == ("t", 3)
    assert parse_key(key, "west") is None


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff",
        b"7",
        b"[" * 100_000,
        b'{"source": "east"}',
        b'{"source": "east", "topic": ["t"], "partition": 3}',
        b'{"source": "east", "topic": "t", "partition": true}',
    ],
)
def test_foreign_key_has_no_partition(key):
    assert parse_key(key, "east") is None


def test_invalid_offset_value_is_none():
    assert parse_offset(b'{"offset": 7}', "offset") == 7
    for value in (b"{}", b"[]", b'{"offset": 1.5}', b'{"offset": -1}', b'{"offset": 1e999}'):
        assert parse_offset(value, "offset") is None
    assert parse_offset(b'{"offset": %d}' % 2**63, "offset") is None
